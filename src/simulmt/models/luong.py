"""The attentional LSTM of Luong et al. 2015, on which Ma et al. 2020 train MILk.

The top decoder layer queries the attention. The attentional vector `a_i = tanh(W_c [c_i; s_i])`
feeds the softmax and, with input feeding, joins the embedding of the next step. The decoder starts
from zeros and not from the encoder's last state, which a streaming model has not reached yet.
"""

from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention import RECURRENT, TRAINED, Attended, Mechanism, Moment, Past, Source
from simulmt.attention.plan import MayMove, carried
from simulmt.attention.shapes import TokenIds
from simulmt.models.boundary import BoundaryPointer
from simulmt.models.dropout import Dropout
from simulmt.models.lstm import LSTMState
from simulmt.models.model import check_width
from simulmt.models.recurrent import Layers, RecurrentModel, RecurrentState
from simulmt.models.results import DecoderStep, Translation, join_layers
from simulmt.models.vocabulary import Vocabulary
from simulmt.ops.precision import wide
from simulmt.options import Few, Share, Width, limited


@limited
class Luong(RecurrentModel):
    """Stacked unidirectional LSTMs with an attention on top.

    Args:
        vocabulary: the subwords, shared by both languages.
        mechanism: builds the attention to the source.
        dim: width D of embeddings and states.
        heads: number of heads of a multihead mechanism; other mechanisms have one head.
        encoder_layers: number of encoder layers.
        decoder_layers: number of decoder layers.
        dropout: on embeddings, between layers and on attentional vectors.
        input_feeding: whether a step sees the attentional vector of the previous step; without it
            the decoder runs over the whole target sequence at once.
        boundaries: whether the decoder points at the ends of segments of a stream
            (`simulmt.models.boundary`).

    Raises:
        UserError: a size out of range.
    """

    usual_beam: ClassVar[int] = 5

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
        input_feeding: bool,
        boundaries: bool = False,
    ) -> None:
        super().__init__(vocabulary, mechanism, dim, causal=True)
        check_width(dim, heads)
        self.input_feeding = input_feeding
        self.source_embedding = nn.Embedding(vocabulary.size, dim)
        self.target_embedding = nn.Embedding(vocabulary.size, dim)
        self.dropout = Dropout(dropout)
        self.encoder = stacked(dim, dim, encoder_layers, dropout)
        self.decoder = stacked((2 if input_feeding else 1) * dim, dim, decoder_layers, dropout)
        self.source_attention = mechanism.attention(dim, heads, RECURRENT)
        self.combine = nn.Linear(2 * dim, dim, bias=False)
        self.output = nn.Linear(dim, vocabulary.size)
        self.confidence = self.confidence_head(dim)
        self.boundary = BoundaryPointer(dim, dim) if boundaries else None

    def encode(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], past: Past | None = None
    ) -> Source:
        """States of the source, each from its prefix alone."""
        states, _ = run(self.encoder, self.dropout(self.source_embedding(source)), None)
        return self.encoded(source, states, mask)

    def decode(
        self, source: Source, target_input: Int[Tensor, "B T"], moment: Moment = TRAINED
    ) -> Translation:
        """Teacher forcing: step by step with input feeding, else all steps at once."""
        plan = self.clock.plan(source, target_input, moment)
        memory = self.source_attention.memory(source)
        embedded = self.dropout(self.target_embedding(target_input))
        pieces = embedded.split(1, 1) if self.input_feeding else [embedded]
        fed, layers, stood, first = torch.zeros_like(embedded[:, :1]), None, None, 0
        vectors, steps = [], list[Attended]()
        for piece in pieces:
            x = torch.cat([piece, fed], -1) if self.input_feeding else piece
            s, layers = run(self.decoder, x, layers)
            now = None if plan is None else plan.steps(first, first + piece.shape[1])
            steps.append(self.source_attention(s, memory, stood, now, moment))
            fed, stood = self._vector(s, steps[-1].context), steps[-1].state
            vectors.append(fed)
            first += piece.shape[1]
        return self.translation(torch.cat(vectors, 1), plan, steps)

    def encode_next(self, tokens: TokenIds, state: Layers | None) -> tuple[Source, Layers]:
        """Encode the next source tokens."""
        x = self.dropout(self.source_embedding(tokens))
        states, after = run(self.encoder, x, state)
        return self.encoded(tokens, states), after

    def start(self, source: Source) -> RecurrentState:
        """The decoder before the first target step; its layers start from zeros."""
        B, _, D = source.states.shape
        zeros = source.states.new_zeros(B, self.decoder.num_layers, D)
        return self.start_with((LSTMState(zeros, zeros),), source)

    def step(
        self, token: Int[Tensor, "B"], state: RecurrentState, moves: MayMove = None
    ) -> DecoderStep:
        """One target step."""
        stand = self.clock.step(state.clock, token, moves)
        x = self.dropout(self.target_embedding(token))
        x = torch.cat([x, state.fed], -1) if self.input_feeding else x
        s, layers = run(self.decoder, x[:, None], state.layers)
        stepped = self.source_attention.step(s, state.memory, state.attention, stand)
        vector = self._vector(s, stepped.context)[:, 0]
        after = RecurrentState(layers, vector, state.memory, stepped.state, carried(stand))
        logits = self.projection.of_step(vector)
        return join_layers(logits, after, [stepped], self.confidence_logit(vector))

    def _vector(self, s: Float[Tensor, "B T D"], context: Float[Tensor, "B T D"]) -> Tensor:
        return self.dropout(torch.tanh(self.combine(torch.cat([context, s], -1))))  # type: ignore[no-any-return]


def stacked(inputs: int, dim: int, layers: int, dropout: float) -> nn.LSTM:
    """LSTM layers with dropout between them."""
    return nn.LSTM(inputs, dim, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)


def run(layers: nn.LSTM, x: Float[Tensor, "B N I"], before: Layers | None) -> tuple[Tensor, Layers]:
    """States (B, N, D) of all steps, and the state of all layers (B, L, D) after the last step.

    Autocast is off: on a GPU it would compute in float16 here, whatever precision is set.
    """
    with torch.autocast(x.device.type, enabled=False):
        states, after = layers(wide(x), None if before is None else _turned(before[0]))
    return states, (_turned(after),)


def _turned(state: tuple[Tensor, Tensor]) -> LSTMState:
    """(B, L, D) as torch lays it out, (L, B, D); or back."""
    return LSTMState(*(x.transpose(0, 1).contiguous() for x in state))
