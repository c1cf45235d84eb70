"""RNMT+ (Chen et al. 2018) as in the MILk paper (Arivazhagan et al. 2019, section 5.1).

Deep LSTMs with normalised gates and residuals. The first decoder layer queries the attention; the
context goes to all other layers and to the softmax. So only the first layer and the attention run
step by step: the other layers and the encoder run over whole sequences.
"""

import math
from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention import RECURRENT, TRAINED, Attended, Mechanism, Moment, Past, Source
from simulmt.attention.plan import MayMove, carried
from simulmt.attention.shapes import TokenIds
from simulmt.models.boundary import BoundaryPointer
from simulmt.models.dropout import Dropout
from simulmt.models.lstm import LSTM, reverse
from simulmt.models.model import check_width, is_causal
from simulmt.models.recurrent import Layers, RecurrentModel, RecurrentState
from simulmt.models.results import DecoderStep, Translation, join_layers
from simulmt.models.vocabulary import Vocabulary
from simulmt.options import Few, Share, Width, limited

PLAIN_LAYERS = 2
"""Number of layers at the bottom of encoder and decoder without residual connections."""


@limited
class RnmtPlus(RecurrentModel):
    """An LSTM encoder, an LSTM decoder, and one attention, queried by the first decoder layer.

    Args:
        vocabulary: the subwords, shared by both languages.
        mechanism: builds the attention to the source.
        dim: width D of embeddings and states.
        heads: number of heads of a multihead mechanism; other mechanisms have one head.
        encoder_layers: number of encoder layers.
        decoder_layers: number of decoder layers.
        dropout: on embeddings and on the outputs of all layers.
        encoder: `causal`, `bidirectional` (each layer concatenates both directions), or `auto`:
            bidirectional if the mechanism reads the whole sentence first, else causal.
        boundaries: whether the decoder points at the ends of segments of a stream
            (`simulmt.models.boundary`).

    Raises:
        UserError: options that do not go together.
    """

    usual_beam: ClassVar[int] = 20

    def __init__(
        self,
        *,
        vocabulary: Vocabulary,
        mechanism: Mechanism,
        dim: Width,
        heads: Few,
        encoder_layers: Few,
        decoder_layers: Few,
        dropout: Share,
        encoder: Literal["auto", "causal", "bidirectional"],
        boundaries: bool = False,
    ) -> None:
        super().__init__(vocabulary, mechanism, dim, is_causal(encoder, mechanism))
        check_width(dim, heads)
        self.source_embedding = nn.Embedding(vocabulary.size, dim)
        self.target_embedding = nn.Embedding(vocabulary.size, dim)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=dim**-0.5)
        self.scale = math.sqrt(dim)
        self.dropout = Dropout(dropout)
        self.encoder = RnmtPlusEncoder(dim, encoder_layers, self.causal, self.dropout)
        self.decoder = nn.ModuleList(LSTM(2 * dim, dim) for _ in range(decoder_layers))
        self.source_attention = mechanism.attention(dim, heads, RECURRENT)
        self.output = nn.Linear(2 * dim, vocabulary.size)
        self.confidence = self.confidence_head(2 * dim)
        self.boundary = BoundaryPointer(2 * dim, dim) if boundaries else None

    def encode(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], past: Past | None = None
    ) -> Source:
        """States of the source."""
        states = self.encoder(self.dropout(self.source_embedding(source)), mask)
        return self.encoded(source, states, mask)

    def decode(
        self, source: Source, target_input: Int[Tensor, "B T"], moment: Moment = TRAINED
    ) -> Translation:
        """Teacher forcing: first layer and attention step by step, then the other layers."""
        plan = self.clock.plan(source, target_input, moment)
        memory = self.source_attention.memory(source)
        embedded = self.dropout(self.target_embedding(target_input))
        first, *others = self._layers()
        state, stood = first.initial_state(embedded), None
        context, hidden, steps = torch.zeros_like(embedded[:, 0]), [], list[Attended]()
        for i, token in enumerate(embedded.unbind(1)):
            state = first.step(torch.cat([token, context], -1), state)
            now = None if plan is None else plan.steps(i, i + 1)
            steps.append(self.source_attention(state.hidden[:, None], memory, stood, now, moment))
            context, stood = steps[-1].context[:, 0], steps[-1].state
            hidden.append(state.hidden)
        x = self.dropout(torch.stack(hidden, 1))
        contexts = torch.cat([step.context for step in steps], 1)
        for number, layer in enumerate(others, 1):
            x = residual(number, x, self.dropout(layer(torch.cat([x, contexts], -1))))
        return self.translation(torch.cat([x, contexts], -1), plan, steps)

    def encode_next(self, tokens: TokenIds, state: Layers | None) -> tuple[Source, Layers]:
        """Encode the next source tokens with the causal encoder."""
        states = []
        for x in self.dropout(self.source_embedding(tokens)).unbind(1):
            newest, state = self.encoder.step(x, state)
            states.append(newest)
        assert state is not None, "there is a token to encode"
        return self.encoded(tokens, torch.stack(states, 1)), state

    def start(self, source: Source) -> RecurrentState:
        """The decoder before the first target step; its layers start from zeros."""
        layers = tuple(layer.initial_state(source.states) for layer in self._layers())
        return self.start_with(layers, source)

    def step(
        self, token: Int[Tensor, "B"], state: RecurrentState, moves: MayMove = None
    ) -> DecoderStep:
        """One target step through all layers."""
        stand = self.clock.step(state.clock, token, moves)
        first, *others = self._layers()
        x = torch.cat([self.dropout(self.target_embedding(token)), state.fed], -1)
        after = [first.step(x, state.layers[0])]
        query = after[0].hidden[:, None]
        stepped = self.source_attention.step(query, state.memory, state.attention, stand)
        x, context = self.dropout(after[0].hidden), stepped.context[:, 0]
        for number, layer in enumerate(others, 1):
            after.append(layer.step(torch.cat([x, context], -1), state.layers[number]))
            x = residual(number, x, self.dropout(after[-1].hidden))
        s = torch.cat([x, context], -1)
        next_state = RecurrentState(
            tuple(after), context, state.memory, stepped.state, carried(stand)
        )
        logits = self.projection.of_step(s)
        return join_layers(logits, next_state, [stepped], self.confidence_logit(s))

    def _layers(self) -> list[LSTM]:
        return cast("list[LSTM]", [*self.decoder])


class RnmtPlusEncoder(nn.Module):
    """LSTM layers with residual connections after the second.

    Args:
        dim: width D of inputs and outputs.
        layers: number of layers.
        causal: whether states depend on past tokens only; otherwise each layer concatenates both
            directions, and the output of the last layer is projected to D.
        dropout: on each layer's output.
    """

    def __init__(self, dim: int, layers: int, causal: bool, dropout: Dropout) -> None:
        super().__init__()
        self.causal = causal
        self.dropout = dropout
        inputs = [dim] + [dim if causal else 2 * dim] * (layers - 1)
        self.forwards = nn.ModuleList(LSTM(width, dim) for width in inputs)
        self.backwards = nn.ModuleList(LSTM(width, dim) for width in inputs if not causal)
        self.project = nn.Identity() if causal else nn.Linear(2 * dim, dim)

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D"]:
        """States of the source."""
        for number, layer in enumerate(cast("Iterable[LSTM]", self.forwards)):
            y = layer(x)
            if not self.causal:
                back = self.backwards[number](reverse(x, mask))
                y = torch.cat([y, reverse(back, mask)], -1)
            x = residual(number, x, self.dropout(y))
        return self.project(x)  # type: ignore[no-any-return]

    def step(
        self, x: Float[Tensor, "B D"], before: Layers | None
    ) -> tuple[Float[Tensor, "B D"], Layers]:
        """The state of one more token, and the layers' states after it; causal encoders only."""
        layers = cast("Sequence[LSTM]", self.forwards)
        before = before or tuple(layer.initial_state(x) for layer in layers)
        after = []
        for number, (layer, state) in enumerate(zip(layers, before, strict=True)):
            after.append(layer.step(x, state))
            x = residual(number, x, self.dropout(after[-1].hidden))
        return self.project(x), tuple(after)


def residual(number: int, x: Tensor, y: Tensor) -> Tensor:
    """Output of layer `number`, from 0, which computed y from x: y or x + y."""
    return y if number < PLAIN_LAYERS else x + y
