"""What the recurrent models share: LSTM layers, and one attention that they query step by step."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention import Attended, Attention, Memory, Plan, Source
from simulmt.attention.plan import carried
from simulmt.attention.state import State
from simulmt.models.dropout import Dropout
from simulmt.models.lstm import LSTMState
from simulmt.models.model import Model
from simulmt.models.projection import Projection
from simulmt.models.results import DecoderStep, Translation, all_losses, join_layers

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


class Output(NamedTuple):
    """What a decoder computes once it has attended to the source."""

    states: Float[Tensor, "B E"]
    """The last states, which become logits."""
    fed: Float[Tensor, "B D"]
    """As of `RecurrentState`."""
    layers: Layers


class RecurrentModel(Model[RecurrentState, Layers], ABC):
    """LSTM layers, of which one queries an attention to the source."""

    joins: bool = True
    source_embedding: nn.Embedding
    target_embedding: nn.Embedding
    dropout: Dropout
    source_attention: Attention
    output: nn.Linear

    @abstractmethod
    def encoded(
        self, embedded: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D"]:
        """The encoder's states of whole sentences."""

    @abstractmethod
    def initial_layers(self, states: Float[Tensor, "B S D"]) -> Layers:
        """The decoder's layers before the first step; `states` are the encoder's."""

    @abstractmethod
    def query(
        self, embedded: Float[Tensor, "B D"], state: RecurrentState
    ) -> tuple[Float[Tensor, "B 1 D"], Layers]:
        """What a step asks the attention, and the layers that have run for it."""

    @abstractmethod
    def attended(
        self,
        query: Float[Tensor, "B 1 D"],
        context: Float[Tensor, "B 1 D"],
        layers: Layers,
        state: RecurrentState,
    ) -> Output:
        """The rest of a step.

        Args:
            query: from `query`.
            context: the attention's answer.
            layers: those that have run.
            state: the state before the step.
        """

    def encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Source:
        """The encoder's states of the source."""
        states = self.encoded(self.dropout(self.source_embedding(source)), mask)
        finished = torch.ones_like(mask[:, 0])
        return Source(source, states, mask, finished, ends=self.ends(source, mask))

    def translation(
        self, states: Float[Tensor, "B T E"], plan: Plan | None, steps: Sequence[Attended]
    ) -> Translation:
        """The result of teacher forcing, from the last states and the attention at each step."""
        output = Projection(self.output.weight, self.output.bias)
        alphas = [step.alpha for step in steps if step.alpha is not None]
        return Translation(
            states,
            output,
            (torch.cat(alphas, 2),) if alphas else (),
            all_losses(plan, steps),
            self.confidence_logit(states),
        )

    def start(self, source: Source) -> RecurrentState:
        """The decoder before the first target step."""
        return RecurrentState(
            layers=self.initial_layers(source.states),
            fed=torch.zeros_like(source.states[:, 0]),
            memory=self.source_attention.memory(source),
            attention=None,
            clock=self.clock.start(source),
        )

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

    def step(
        self,
        token: Int[Tensor, "B"],
        state: RecurrentState,
        moves: Bool[Tensor, "B"] | None = None,
    ) -> DecoderStep:
        """One target step: query, attention, and the rest."""
        stand = self.clock.step(state.clock, token, moves)
        query, layers = self.query(self.dropout(self.target_embedding(token)), state)
        stepped = self.source_attention.step(query, state.memory, state.attention, stand)
        states, fed, layers = self.attended(query, stepped.context, layers, state)
        after = RecurrentState(layers, fed, state.memory, stepped.state, carried(stand))
        confidence = self.confidence_logit(states)
        return join_layers(self.output(states), after, [stepped], confidence)
