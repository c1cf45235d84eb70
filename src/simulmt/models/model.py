"""What training and decoding ask of every translation model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention import Mechanism
from simulmt.errors import UserError

T = TypeVar("T")

State = Any
"""A decoder between two target steps: nested named tuples of tensors, a row for each sentence."""


class Translation(NamedTuple):
    """What teacher forcing gives."""

    logits: Float[Tensor, "B T V"]
    alphas: tuple[Float[Tensor, "B H T S"], ...]
    """Expected alignment of the heads of each layer that attends, moved by what a span looks ahead;
    empty where the schedule is fixed."""


class DecoderStep(NamedTuple):
    """What one target step gives."""

    logits: Float[Tensor, "B V"]
    state: State
    positions: Int[Tensor, "B LH"]
    """Where each head of each layer stopped, from 1; 0 once it has run off the end."""
    read: Int[Tensor, "B"]
    """Delay g_i: source tokens read before this target token is written."""
    wants_to_read: Bool[Tensor, "B"]
    """Where True, the rest of the row is void: read another token and take the step again."""
    weights: tuple[Float[Tensor, "B H S"], ...]
    """Attention to the source, for each layer that attends; nothing is copied for it."""


class Model(nn.Module, ABC):
    """A translation model with a pluggable mechanism."""

    usual_beam: ClassVar[int]
    """Hypotheses kept by beam search where the whole sentence is read first."""
    causal: bool
    """Whether source states depend on their prefix only, so that `listen` can give them in turn."""

    @abstractmethod
    def encode(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D"]:
        """States of the source; those of a causal encoder depend on their prefix only."""

    @abstractmethod
    def decode(
        self,
        states: Float[Tensor, "B S D"],
        source_mask: Bool[Tensor, "B S"],
        target_input: Int[Tensor, "B T"],
    ) -> Translation:
        """Teacher forcing: logits of each next target token, in expectation over reading."""

    def forward(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"],
        target_input: Int[Tensor, "B T"],
    ) -> Translation:
        """Encode, then decode."""
        return self.decode(self.encode(source, source_mask), source_mask, target_input)

    @abstractmethod
    def start(
        self,
        states: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B S"],
        finished: Bool[Tensor, "B"],
    ) -> State:
        """The decoder before its first target step, on what has been read of the source."""

    @abstractmethod
    def listen(
        self, token: Int[Tensor, "B"], heard: State | None
    ) -> tuple[Float[Tensor, "B 1 D"], State]:
        """The state of one more source token, after what was heard before it; None is nothing.

        What `encode` gives all at once, for encoders that are causal.
        """

    @abstractmethod
    def extend(
        self, state: State, states: Float[Tensor, "B N D"], finished: Bool[Tensor, "B"]
    ) -> State:
        """The decoder with more of the source at hand."""

    @abstractmethod
    def step(self, token: Int[Tensor, "B"], state: State) -> DecoderStep:
        """Take in the last written token and give the next one's logits, reading hard."""


def check_sizes(
    dim: int, heads: int, encoder_layers: int, decoder_layers: int, dropout: float
) -> None:
    """Refuse sizes that no model has.

    Raises:
        UserError: naming the value, the limit and the remedy.
    """
    if heads < 1 or dim < 1 or dim % heads:
        raise UserError(
            f"model.dim is {dim}, model.heads {heads}; dim must be a positive multiple of heads"
        )
    if min(encoder_layers, decoder_layers) < 1:
        raise UserError(
            f"model.encoder_layers is {encoder_layers}, model.decoder_layers {decoder_layers}; "
            "each must be at least 1"
        )
    if not 0 <= dropout < 1:
        raise UserError(f"model.dropout is {dropout}; it lies in [0, 1)")


def is_causal(encoder: str, mechanism: Mechanism) -> bool:
    """Whether an encoder sees the past only.

    Args:
        encoder: `causal`, `bidirectional`, or `auto` for bidirectional where that is possible.
        mechanism: the attention to the encoder's states.

    Raises:
        UserError: an unknown name, or bidirectional with a mechanism that streams.
    """
    if encoder not in ("auto", "causal", "bidirectional"):
        raise UserError(
            f"model.encoder is {encoder!r}; choose auto, causal or bidirectional, "
            "or with a Transformer reencoding"
        )
    if encoder == "bidirectional" and not mechanism.offline:
        raise UserError(
            f"model.encoder=bidirectional reads the whole sentence, mechanism={mechanism.name} "
            "streams; take encoder=causal or mechanism=soft"
        )
    return encoder == "causal" or not mechanism.offline


def join_steps(
    alphas: Sequence[Float[Tensor, "B H N S"] | None],
) -> tuple[Float[Tensor, "B H T S"], ...]:
    """The expected alignment of one layer, from its pieces; nothing where the schedule is fixed."""
    learned = [alpha for alpha in alphas if alpha is not None]
    return (torch.cat(learned, 2),) if learned else ()


def select(state: T, rows: Tensor) -> T:
    """The same state for the chosen rows of the batch, in that order."""
    return cast("T", _select(state, rows))


def _select(state: Any, rows: Tensor) -> Any:
    if isinstance(state, Tensor):
        return state[rows]
    parts = [_select(part, rows) for part in state]
    return state._make(parts) if hasattr(state, "_make") else tuple(parts)
