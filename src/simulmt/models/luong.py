"""The attentional LSTM of Luong et al. 2015, on which Ma et al. 2020 train MILk.

The top decoder layer queries the attention. The attentional vector `a_i = tanh(W_c [c_i; s_i])`
feeds the softmax and, with input feeding, joins the embedding of the next step. The decoder starts
from zeros and not from the encoder's last state, which a streaming model has not reached yet.
"""

from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention import RECURRENT, TRAINED, Attended, Mechanism, Moment, Source
from simulmt.attention.clock import Side
from simulmt.models.dropout import Dropout
from simulmt.models.lstm import LSTMState
from simulmt.models.model import check_width
from simulmt.models.recurrent import Layers, Output, RecurrentModel, RecurrentState
from simulmt.models.results import Translation
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

    def encoded(
        self, embedded: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D"]:
        """States of whole sentences, each from its prefix alone."""
        return run(self.encoder, embedded, None)[0]

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

    def encode_next(
        self, tokens: Int[Tensor, "B N"], state: Layers | None
    ) -> tuple[Source, Layers]:
        """Encode the next source tokens."""
        x = self.dropout(self.source_embedding(tokens))
        states, after = run(self.encoder, x, state)
        return self.next_source(tokens, states), after

    def initial_layers(self, states: Float[Tensor, "B S D"]) -> Layers:
        """Zeros."""
        zeros = states.new_zeros(len(states), self.decoder.num_layers, states.shape[-1])
        return (LSTMState(zeros, zeros),)

    def query(
        self, embedded: Float[Tensor, "B D"], state: RecurrentState
    ) -> tuple[Float[Tensor, "B 1 D"], Layers]:
        """The state of the top layer, and all layers."""
        x = torch.cat([embedded, state.fed], -1) if self.input_feeding else embedded
        return run(self.decoder, x[:, None], state.layers)

    def attended(
        self,
        query: Float[Tensor, "B 1 D"],
        context: Float[Tensor, "B 1 D"],
        layers: Layers,
        state: RecurrentState,
    ) -> Output:
        """The attentional vector."""
        vector = self._vector(query, context)[:, 0]
        return Output(vector, vector, layers)

    def embedded(
        self, tokens: Int[Tensor, "B N"], start: Int[Tensor, "#B 1"], side: Side
    ) -> Float[Tensor, "B N D"]:
        """Embedded tokens; there are no positions."""
        table = self.source_embedding if side == "source" else self.target_embedding
        return table(tokens)  # type: ignore[no-any-return]

    def _vector(self, s: Float[Tensor, "B T D"], context: Float[Tensor, "B T D"]) -> Tensor:
        vector: Tensor = self.dropout(torch.tanh(self.combine(torch.cat([context, s], -1))))
        return vector


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
