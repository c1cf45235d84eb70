"""What the recurrent models share: the state of a decoder that queries one attention."""

from abc import ABC
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention import Attended, Attention, Memory, Plan, Source
from simulmt.attention.clock import Side
from simulmt.attention.shapes import Starts, TokenIds
from simulmt.attention.state import State
from simulmt.models.dropout import Dropout
from simulmt.models.lstm import LSTMState
from simulmt.models.model import Model
from simulmt.models.projection import Projection
from simulmt.models.results import Translation, all_losses

Layers = tuple[LSTMState, ...]
"""The states of the LSTM layers of an encoder or a decoder."""


class RecurrentState(NamedTuple):
    """The state of the decoder between two target steps."""

    layers: Layers
    fed: Float[Tensor, "B D"]
    """What the next step sees of the attention of the previous step."""
    memory: Memory
    attention: State
    """The schedule's state; None before the first step, and where a clock decides."""
    clock: State


class RecurrentModel(Model[RecurrentState, Layers], ABC):
    """LSTM layers, one of which queries an attention to the source."""

    joins: bool = True
    scale: float = 1.0
    """What gives embeddings a scale of 1, for clocks."""
    source_embedding: nn.Embedding
    target_embedding: nn.Embedding
    dropout: Dropout
    source_attention: Attention
    output: nn.Linear

    @property
    def projection(self) -> Projection:
        """The output layer."""
        return Projection(self.output.weight, self.output.bias)

    def embedded(self, tokens: TokenIds, start: Starts, side: Side) -> Float[Tensor, "B N D"]:
        """Embedded tokens; there are no positions."""
        table = self.source_embedding if side == "source" else self.target_embedding
        return table(tokens) * self.scale  # type: ignore[no-any-return]

    def start_with(self, layers: Layers, source: Source) -> RecurrentState:
        """The decoder before the first target step, with the initial states of its layers."""
        fed, memory = torch.zeros_like(source.states[:, 0]), self.source_attention.memory(source)
        return RecurrentState(layers, fed, memory, None, self.clock.start(source))

    def extend(self, state: RecurrentState, source: Source) -> RecurrentState:
        """The decoder after more of the source has been read."""
        memory = self.source_attention.extend(state.memory, source)
        return state._replace(memory=memory, clock=self.clock.extend(state.clock, source))

    def seen(
        self, state: RecurrentState, read: Int[Tensor, "B"], finished: Bool[Tensor, "B"]
    ) -> RecurrentState:
        """The decoder that sees only the first `read` source tokens."""
        clock = self.clock.seen(state.clock, read, finished)
        return state._replace(memory=state.memory.seen(read, finished), clock=clock)

    def translation(
        self, states: Float[Tensor, "B T E"], plan: Plan | None, steps: Sequence[Attended]
    ) -> Translation:
        """The result of teacher forcing, from the last states and the attention at each step."""
        alphas = [step.alpha for step in steps if step.alpha is not None]
        joined = (torch.cat(alphas, 2),) if alphas else ()
        confidence = self.confidence_logit(states)
        losses = all_losses(plan, steps)
        return Translation(states, self.projection, joined, losses, confidence)
