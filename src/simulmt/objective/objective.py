"""The interface of objectives: an objective runs the model on a batch and returns losses.

Losses are sums over the sentences of a batch. Sums and counts stay apart, so that both can be added
up over gradient accumulation and over processes before the division.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from simulmt.attention import Mechanism, Moment
from simulmt.models.model import Model
from simulmt.objective.batch import Batch


class Loss(NamedTuple):
    """Sums over the sentences of a batch."""

    total: Float[Tensor, ""]
    """The sum that is minimised, before division by the number of target tokens."""
    tokens: Int[Tensor, ""]
    """Target tokens, EOS included."""
    sentences: int
    per_token: Mapping[str, Float[Tensor, ""]]
    """Sums that are divided by `tokens` and logged; `nll` is among them."""
    per_sentence: Mapping[str, Float[Tensor, ""]]
    """Sums that are divided by `sentences` and logged."""


class Objective(nn.Module, ABC):
    """Runs a model on a batch, once or more often, and weighs the losses."""

    @abstractmethod
    def forward(self, model: Model, batch: Batch, moment: Moment) -> Loss:
        """The losses of a batch.

        Args:
            model: the model in training.
            batch: the sentence pairs.
            moment: how far the training is; `nll` in evaluation mode does not depend on it.
        """

    def misfit(self, mechanism: Mechanism) -> str:
        """Why the objective makes no sense for a mechanism, in words; empty if it does."""
        return ""

    @abstractmethod
    def needs_delays(self) -> bool:
        """Whether a weighted part of the objective depends on expected delays."""

    @abstractmethod
    def at_full_weight(self, update: int) -> bool:
        """Whether all weights have reached their final values at an update, from 0."""

    @abstractmethod
    def weights(self, update: int) -> Mapping[str, float]:
        """The weights in force at an update, from 0, by the names under which they are logged."""


def grown(update: int, hold: int, warmup: int) -> float:
    """A weight that is 0 for `hold` updates from update 0 on, then grows to 1 over `warmup`."""
    return min(max((update + 1 - hold) / max(warmup, 1), 0.0), 1.0)
