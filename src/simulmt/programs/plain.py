"""Turns Hydra's configuration into plain values; only the programs see Hydra's types."""

from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from simulmt.errors import UserError
from simulmt.options import check


def plain(cfg: DictConfig) -> dict[str, Any]:
    """Return the resolved configuration as plain Python values.

    Raises:
        UserError: a mandatory value is missing, or an interpolation leads nowhere.
    """
    try:
        resolved = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise UserError(explain_entry(error)) from None
    assert isinstance(resolved, dict)
    resolved.pop("experiments", None)  # values that presets refer to
    return {str(key): value for key, value in resolved.items()}


def plugins_of(cfg: DictConfig) -> list[str]:
    """Return the plugins that a configuration names, by a command line or a preset.

    Raises:
        UserError: they are no list of names.
    """
    named = cfg.get("plugins")
    given = OmegaConf.to_container(named) if OmegaConf.is_config(named) else named
    return list(check({"plugins": given}, {"plugins": list[str]}, "")["plugins"])


def hydra_record(cfg: DictConfig) -> dict[str, str]:
    """Return the files of Hydra's record of a job, by name: configuration and overrides."""
    chosen = HydraConfig.get()
    hydra = OmegaConf.create({"hydra": chosen})
    parts = {"config": cfg, "hydra": hydra, "overrides": chosen.overrides.task}
    return {f"{name}.yaml": OmegaConf.to_yaml(part) for name, part in parts.items()}


def explain_entry(error: OmegaConfBaseException) -> str:
    """Return the key of an entry that cannot be resolved, and why."""
    return f"{error.full_key or 'configuration'}: {str(error).splitlines()[0]}"
