"""The moment of training at which a model sees a batch, for curricula and random clocks."""

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor


class Moment(NamedTuple):
    """How far the training is when a model sees a batch. The default stands for a trained model."""

    update: int = 1
    """Updates done so far."""
    updates: int = 1
    """Updates that the whole training takes."""
    draw: Float[Tensor, "B"] | None = None
    """A random number in [0, 1) for each sentence, the same in all layers. The draw depends on
    seed, update and sentence alone, so it is the same on one rank as on many."""
    lengths: Int[Tensor, "B"] | None = None
    """Target tokens of each sentence, EOS included, for losses of clocks and schedules. None where
    no losses are wanted."""
    sources: Int[Tensor, "B"] | None = None
    """Source tokens of each sentence: in a stream, one token of what follows takes the place of
    EOS. None for all tokens of the batch."""

    @property
    def share(self) -> float:
        """Share of the updates that are done, from 0 to 1."""
        return self.update / self.updates


TRAINED = Moment()


def uniform(
    draw: Float[Tensor, "B"], least: Int[Tensor, "B"] | int, most: Int[Tensor, "B"]
) -> Int[Tensor, "B"]:
    """The whole number from `least` to `most` that a draw from [0, 1) stands for."""
    return (least + (draw * (most - least + 1)).long()).minimum(most)
