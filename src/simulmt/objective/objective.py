"""What training minimises: an objective runs the model on a batch, as often as it needs to.

Losses are sums over the sentences of a batch. Sums and counts are kept apart, so that they can be
added up over gradient accumulation and over processes before one is divided by the other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from simulmt.attention import Moment
from simulmt.data.encoded import Batch
from simulmt.models.model import Model


class Loss(NamedTuple):
    """Sums over the sentences of a batch."""

    total: Float[Tensor, ""]
    """The sum that is minimised, before division by the number of target tokens."""
    tokens: Int[Tensor, ""]
    """Target tokens, EOS included."""
    sentences: int
    per_token: Mapping[str, Float[Tensor, ""]]
    """Sums that are logged after division by `tokens`; `nll` is among them."""
    per_sentence: Mapping[str, Float[Tensor, ""]]
    """Sums that are logged after division by `sentences`."""


class Objective(nn.Module, ABC):
    """Runs a model on a batch and weighs what comes out."""

    @abstractmethod
    def forward(self, model: Model, batch: Batch, moment: Moment) -> Loss:
        """The losses of a batch.

        Args:
            model: what is trained.
            batch: the sentences.
            moment: when in the training this is; in evaluation mode, for `nll`, it is irrelevant.
        """

    @abstractmethod
    def needs_delays(self) -> bool:
        """Whether a part of the objective can act on expected delays alone."""

    @abstractmethod
    def settled(self, update: int) -> bool:
        """Whether all weights have grown to their values at an update, from 0."""

    @abstractmethod
    def weights(self, update: int) -> Mapping[str, float]:
        """The weights in force at an update, from 0, by the names under which they are logged."""
