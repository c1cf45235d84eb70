"""Turns Hydra's configuration into plain values; only the programs see Hydra's types."""

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from omegaconf import DictConfig, OmegaConf
from pydantic import BeforeValidator


def plain(cfg: DictConfig) -> dict[str, object]:
    """Return the resolved configuration as plain Python values.

    Raises:
        OmegaConfBaseException: a mandatory value is missing, or an interpolation leads nowhere.
    """
    resolved = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    assert isinstance(resolved, dict)
    resolved.pop("experiments", None)  # values that presets refer to
    return {str(key): value for key, value in resolved.items()}


def _without_null(dial: object) -> object:
    return {k: v for k, v in dial.items() if v is not None} if isinstance(dial, dict) else dial


Dials: TypeAlias = Annotated[Mapping[str, int | float], BeforeValidator(_without_null)]
"""The dials that a user has set; null leaves one as in training."""
