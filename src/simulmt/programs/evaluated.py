"""The end of `evaluate.py -m`: one table of all decodings."""

from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from simulmt.analysis.table import score_table
from simulmt.console import console
from simulmt.scoring.scores import Scores

_evaluated: dict[str, Scores] = {}


class Table(Callback):
    """A callback that Hydra calls in the process that the user started."""

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Print the scores of all decodings that this process has made."""
        if _evaluated:
            console.print(score_table(_evaluated))
            _evaluated.clear()


def in_multirun() -> bool:
    """Return whether this evaluation is one of several."""
    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN


def keep(name: str, scores: Scores) -> None:
    """Keep the scores of a decoding for the table."""
    _evaluated[name] = scores
