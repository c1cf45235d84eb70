"""Turns Hydra's configuration into plain values; only the programs see Hydra's types."""

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue
from pydantic import BeforeValidator

from simulmt.errors import UserError
from simulmt.options import flat_options


def plain(cfg: DictConfig) -> dict[str, object]:
    """Return the resolved configuration as plain values, without `experiments` and `plugins`.

    Raises:
        UserError: an option has no value, or an empty or blank text, such as an unset variable of
            the shell.
        OmegaConfBaseException: an interpolation leads nowhere.
    """
    try:
        resolved = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        raise UserError(f"{error.full_key} has no value: set {error.full_key}=VALUE") from None
    assert isinstance(resolved, dict)
    options = {str(key): value for key, value in resolved.items()}
    options.pop("experiments", None)  # values that presets refer to
    for name, value in flat_options(options).items():
        texts = value if isinstance(value, list) else [value]
        if any(isinstance(text, str) and not text.strip() for text in texts):
            why = f"{name} is empty (from an unset shell variable?)"
            raise UserError(f"{why}: give it a value, or leave it out")
    options.pop("plugins", None)  # which `command.work` has loaded
    return options


def _without_null(dial: object) -> object:
    return {k: v for k, v in dial.items() if v is not None} if isinstance(dial, dict) else dial


Dials: TypeAlias = Annotated[Mapping[str, int | float], BeforeValidator(_without_null)]
"""The dials that a user has set; null leaves one as in training."""
