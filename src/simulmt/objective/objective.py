"""The interface of objectives: an objective runs the model on a batch and returns losses.

Losses are sums over the sentences of a batch. Sums and counts stay apart, so that both can be added
up over gradient accumulation and over processes before the division.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple, TypeAlias

from jaxtyping import Float, Int
from torch import Tensor, nn

from simulmt.attention import Mechanism, Moment
from simulmt.models.model import Model
from simulmt.objective.batch import Batch

Sums: TypeAlias = Mapping[str, Float[Tensor, ""]]


class Loss(NamedTuple):
    """Sums over the sentences of a batch."""

    total: Float[Tensor, ""]
    """The sum that is minimised, before division by the number of target tokens."""
    tokens: Int[Tensor, ""]
    """Target tokens, EOS included."""
    sentences: int
    per_token: Sums
    """Sums that are divided by `tokens` and logged; `nll` is among them."""
    per_sentence: Sums
    """Sums that are divided by `sentences` and logged."""

    @classmethod
    def of(
        cls, batch: Batch, total: Tensor, per_token: Sums, per_sentence: Sums | None = None
    ) -> "Loss":
        """The loss of a batch, with its total logged as `loss`; what is logged is detached."""
        logged = {"loss": total, **per_token}, per_sentence or {}
        sums = ({name: value.detach() for name, value in part.items()} for part in logged)
        return cls(total, batch.target_mask.sum(), len(batch.target), *sums)

    def plus(self, term: Tensor, per_token: Sums, per_sentence: Sums) -> "Loss":
        """The loss with one more term in its total, and more that is logged."""
        logged = {**self.per_token, **per_token}, {**self.per_sentence, **per_sentence}
        return Loss(self.total + term, self.tokens, self.sentences, *logged)


class Objective(nn.Module, ABC):
    """Runs a model on a batch, one or more times, and weights the losses.

    Args:
        hold: number of initial updates during which the weights that grow are 0.
        warmup: updates over which these weights then grow linearly to their values.
    """

    points: ClassVar[bool] = False
    """True if it trains the pointer of `simulmt.models.boundary`."""

    def __init__(self, hold: int = 0, warmup: int = 0) -> None:
        super().__init__()
        self.hold, self.warmup = hold, warmup

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

    def needs_delays(self) -> bool:
        """True if a weighted part of the objective depends on expected delays."""
        return False

    def grows(self) -> bool:
        """True if any weight grows during training."""
        return True

    def strength(self, update: int) -> float:
        """The factor of the weights that grow, from 0 to 1, at an update, from 0."""
        if not self.grows():
            return 1.0
        return min(max((update + 1 - self.hold) / max(self.warmup, 1), 0.0), 1.0)

    def at_full_weight(self, update: int) -> bool:
        """True if all weights have reached their final values at an update, from 0."""
        return self.strength(update) == 1.0

    def weights(self, update: int) -> Mapping[str, float]:
        """The weights in force at an update, from 0, by the names under which they are logged."""
        return {}
