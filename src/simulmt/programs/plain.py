"""Turns Hydra's configuration into plain values; only the programs see Hydra's types."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from pydantic import BeforeValidator


def plain(cfg: DictConfig) -> dict[str, Any]:
    """Return the resolved configuration as plain Python values.

    Raises:
        OmegaConfBaseException: a mandatory value is missing, or an interpolation leads nowhere.
    """
    resolved = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    assert isinstance(resolved, dict)
    resolved.pop("experiments", None)  # values that presets refer to
    return {str(key): value for key, value in resolved.items()}


def _turned(dial: object) -> object:
    return {k: v for k, v in dial.items() if v is not None} if isinstance(dial, dict) else dial


Dials: TypeAlias = Annotated[Mapping[str, int | float], BeforeValidator(_turned)]
"""The dials that a user has set; null leaves one as in training."""


def hydra_record(cfg: DictConfig) -> dict[str, str]:
    """Return the files of Hydra's record of a job, by name: configuration and overrides."""
    chosen = HydraConfig.get()
    hydra = OmegaConf.create({"hydra": chosen})
    parts = {"config": cfg, "hydra": hydra, "overrides": chosen.overrides.task}
    return {f"{name}.yaml": OmegaConf.to_yaml(part) for name, part in parts.items()}
