"""The Transformer (Vaswani et al. 2017) with a monotonic mechanism in every decoder layer.

The encoder is causal for every mechanism that streams (Ma et al. 2020): the states of a prefix do
not depend on later tokens, so decoding the whole source with hard positions gives exactly what
streaming gives. Source and target share one vocabulary and one embedding matrix.
"""

from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention import TRAINED, Mechanism, Moment, Past, Source
from simulmt.attention.clock import Side
from simulmt.attention.plan import MayMove, Stand, carried, together
from simulmt.attention.shapes import Starts, TokenIds
from simulmt.errors import UserError
from simulmt.models.average_embedding import AverageEmbedding, GuidedAttention
from simulmt.models.boundary import BoundaryPointer
from simulmt.models.decoder import Decoder, DecoderLayer, SourceAttention, seen
from simulmt.models.dropout import Dropout
from simulmt.models.embedding import TiedEmbedding
from simulmt.models.encoder import Encoded, Encoder, EncoderLayer
from simulmt.models.layers import (
    ActivationName,
    LayerOptions,
    emphasised,
    visible_after,
    visible_with_past,
)
from simulmt.models.model import Model, check_width, is_causal
from simulmt.models.projection import Projection
from simulmt.models.reencoding import REENCODING, PrefixAttention, encode_prefixes
from simulmt.models.results import DecoderStep, Translation, all_losses, join_layers
from simulmt.models.several_states import StateChooser, TransformerState
from simulmt.models.vocabulary import Vocabulary
from simulmt.options import Few, Natural, Share, Width, limited

BY_WORD = "by_word"
"""The value of `model.encoder` with which a token sees its whole word."""


class TransformerEncoderState(NamedTuple):
    """The state of the encoder between two source tokens."""

    layers: Encoded
    step: Int[Tensor, "B"]
    """Number of source tokens read so far."""
    total: Float[Tensor, "B D"]
    """Sum of the embeddings of these tokens."""


@limited
class Transformer(Model[TransformerState, TransformerEncoderState | Tensor]):
    """Encoder, decoder and tied embeddings.

    Args:
        vocabulary: the subwords, shared by both languages.
        mechanism: builds the attention to the source in every decoder layer.
        dim: width D of the model.
        ffn: width of the feed-forward layers.
        heads: number of heads H; the source attention of a single-head mechanism has one.
        encoder_layers: number of encoder layers.
        decoder_layers: number of decoder layers.
        dropout: on embeddings and on the output of each sublayer.
        norm: "pre" or "post" layer normalisation.
        encoder: `causal`, `by_word` (causal, except that a token sees its whole word),
            `bidirectional` (for mechanisms that read the whole sentence first), `auto` for
            bidirectional where that is possible, or `reencoding` (bidirectional and run again on
            every prefix, for wait-k: `simulmt.models.reencoding`).
        average_embedding: whether to add the average of the embeddings read to every source state
            (`simulmt.models.average_embedding`).
        activation: of the feed-forward layers.
        output_bias: whether each subword's logit has a bias.
        boundaries: whether the decoder points at the ends of segments of a stream
            (`simulmt.models.boundary`).
        history: the most tokens of earlier segments of a stream, on either side, that encoder and
            decoder see; causal encoders only.

    Raises:
        UserError: options that do not go together.
    """

    usual_beam: ClassVar[int] = 5
    loops: ClassVar[bool] = False
    takes_several_states: ClassVar[bool] = True

    def __init__(
        self,
        *,
        vocabulary: Vocabulary,
        mechanism: Mechanism,
        dim: Width,
        ffn: Width,
        heads: Few,
        encoder_layers: Few,
        decoder_layers: Few,
        dropout: Share,
        norm: Literal["pre", "post"],
        encoder: Literal["auto", "causal", "by_word", "bidirectional", "reencoding"],
        average_embedding: bool = False,
        activation: ActivationName = "relu",
        output_bias: bool = False,
        boundaries: bool = False,
        history: Natural = 0,
    ) -> None:
        causal = encoder in (REENCODING, BY_WORD) or is_causal(encoder, mechanism)
        super().__init__(vocabulary, mechanism, dim, causal)
        self.history = history
        _check(mechanism, encoder, average_embedding, boundaries)
        check_width(dim, heads, each=2)
        self.reencodes, self.sees_words = encoder == REENCODING, encoder == BY_WORD
        self.reads_words = self.reads_words or self.sees_words
        self.extends = causal and not self.reencodes
        _check_history(self, average_embedding)
        self.joins = not (self.reencodes or mechanism.several_states)
        self.embedding = TiedEmbedding(vocabulary.size, dim)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)
        self.dropout = Dropout(dropout)
        pre = norm == "pre"
        options = LayerOptions(dim, ffn, heads, dropout, pre, activation)
        self.encoder = Encoder(EncoderLayer(options) for _ in range(encoder_layers))

        def attend() -> SourceAttention:
            attention = mechanism.attention(dim, heads)
            if self.reencodes:
                return PrefixAttention(attention, mechanism)
            return GuidedAttention(attention) if average_embedding else attention

        self.decoder = Decoder(DecoderLayer(attend, options) for _ in range(decoder_layers))
        self.attending_layers = decoder_layers
        self.output_bias = nn.Parameter(torch.zeros(vocabulary.size)) if output_bias else None
        self.average = AverageEmbedding(dim) if average_embedding else None
        self.encoder_norm = nn.LayerNorm(dim) if pre else nn.Identity()
        self.decoder_norm: nn.Module = nn.LayerNorm(dim) if pre else nn.Identity()
        self.confidence = self.confidence_head(dim)
        self.boundary = BoundaryPointer(dim, dim) if boundaries else None
        self.several = StateChooser(mechanism, dim) if mechanism.several_states else None

    def recompute_layers(self) -> None:
        """See `Model`."""
        self.encoder.recompute = self.decoder.recompute = True

    def encode(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], past: Past | None = None
    ) -> Source:
        """States of the source, with averages or re-encoded prefixes if the model uses them."""
        visible: Tensor | None
        if past is not None:
            x, visible = self._after(past.source, past.source_mask, source, "source")
            states = self._states(x, visible)[:, past.source.shape[1] :]
            return self.encoded(source, states, mask)._replace(past=past)
        x = self.embed(source)
        if self.reencodes:
            prefixes, rows = encode_prefixes(self._states, x), torch.arange(len(x), device=x.device)
            whole = prefixes[rows, mask.sum(1) - 1]  # the longest prefix without padding
            return self.encoded(source, whole, mask, prefixes=prefixes)
        visible = None if self.causal else mask[:, None, None]
        if self.sees_words:
            ended = self.word_ends(source, mask).cumsum(1)
            word = torch.cat([torch.zeros_like(ended[:, :1]), ended[:, :-1]], 1)
            visible = (word[:, None] <= word[..., None])[:, None]
        visible = emphasised(self.clock, visible, source, "source")
        states = self._states(x, visible)
        none = source.new_zeros(len(source))
        averages, _ = self._averaged(source, x.new_zeros(len(x), self.dim), none)
        return self.encoded(source, states, mask, averages)

    def _after(
        self,
        past: Int[Tensor, "B P"],
        real: Bool[Tensor, "B P"],
        tokens: Int[Tensor, "B T"],
        side: Side,
        weight: Tensor | None = None,
    ) -> tuple[Float[Tensor, "B P+T D"], Tensor | None]:
        """The past and the tokens, embedded, and their mask; positions begin with the past."""
        first = real.sum(1, keepdim=True) - past.shape[1]  # below 0 at padding
        real = visible_with_past(real, tokens.shape[1])
        tokens = torch.cat([past, tokens], 1)
        visible = emphasised(self.clock, real, tokens, side, start=first)
        return self.embed(tokens, first, weight), visible

    def _states(self, x: Float[Tensor, "B S D"], visible: Tensor | None) -> Tensor:
        return self.encoder_norm(self.encoder(x, visible))  # type: ignore[no-any-return]

    def _averaged(
        self, tokens: TokenIds, total: Float[Tensor, "B D"], count: Int[Tensor, "B"]
    ) -> tuple[Float[Tensor, "B N D"] | None, Float[Tensor, "B D"]]:
        """Averages of the embeddings of each prefix, if the model uses them, and the new total."""
        if self.average is None:
            return None, total
        averages, total = self.average(self.embedding.scaled(tokens), total, count)
        return averages, total

    def decode(
        self, source: Source, target_input: Int[Tensor, "B T"], moment: Moment = TRAINED
    ) -> Translation:
        """Teacher forcing: all target steps at once, layer by layer."""
        plan = self.clock.plan(source, target_input, moment)
        embedding, output = self.embedding.twice()
        visible: Tensor | None
        if source.past is not None:
            past = source.past.target, source.past.target_mask
            x, visible = self._after(*past, target_input, "target", embedding)
        elif self.several is not None:
            x, visible = self.several.spread(self.embed(target_input, weight=embedding), plan)
        else:
            x = self.embed(target_input, weight=embedding)
            visible = emphasised(self.clock, None, target_input, "target")
        x, layers = self.decoder(x, visible, source, plan, moment)
        alphas = tuple(attended.alpha for attended in layers if attended.alpha is not None)
        states, losses = self.decoder_norm(x), all_losses(plan, layers, len(layers))
        projection = Projection(output, self.output_bias)
        found = Translation(states, projection, alphas, losses, self.confidence_logit(states))
        return self.several.of_each_token(found, source, plan) if self.several else found

    def start(self, source: Source) -> TransformerState:
        """The decoder before the first target step."""
        written = torch.zeros_like(source.tokens[:, 0])
        layers, clock = self.decoder.start(source), self.clock.start(source)
        states = self.several.start(source) if self.several else None
        state = TransformerState(layers, written, clock, states)
        if source.past is None:
            return state
        past = source.past.target
        x, visible = self.next_inputs(past, state)
        after = self.decoder.remember(x, visible, layers)
        return state._replace(layers=after, step=written + past.shape[1])

    def encode_next(
        self, tokens: TokenIds, state: TransformerEncoderState | Tensor | None
    ) -> tuple[Source, TransformerEncoderState | Tensor]:
        """Encode the next source tokens, or with re-encoding the whole prefix again."""
        if self.reencodes:
            assert not isinstance(state, TransformerEncoderState), "the prefix"
            prefix = tokens if state is None else torch.cat([state, tokens], 1)
            whole = torch.ones_like(prefix, dtype=torch.bool)[:, None, None]
            states = self._states(self.embed(prefix), whole)
            newest = states[:, -tokens.shape[1] :]
            return self.encoded(tokens, newest, prefixes=states[:, None]), prefix
        assert not isinstance(state, Tensor), "what the causal encoder keeps"
        none = self.embedding.weight.new_zeros(len(tokens), self.dim)
        step, total = (torch.zeros_like(tokens[:, 0]), none) if state is None else state[1:]
        x, N = self.embed(tokens, step[:, None]), tokens.shape[1]
        past = state.layers if state else self.encoder.start(x)
        before = past[0][0].shape[2]
        # inside a word, a token may see those that follow
        visible = visible_after(before, x, step[:, None], causal=not self.sees_words)
        visible = emphasised(self.clock, visible, tokens, "source", before, step[:, None])
        x, layers = self.encoder.step(x, past, visible)
        averages, total = self._averaged(tokens, total, step)
        source = self.encoded(tokens, self.encoder_norm(x), averages=averages)
        return source, TransformerEncoderState(layers, step + N, total)

    def extend(self, state: TransformerState, source: Source) -> TransformerState:
        """The decoder after more of the source has been read."""
        return state._replace(
            layers=self.decoder.extended(state.layers, source),
            clock=self.clock.extend(state.clock, source),
            several=self.several.extend(state.several, source) if self.several else None,
        )

    def seen(
        self, state: TransformerState, read: Int[Tensor, "B"], finished: Bool[Tensor, "B"]
    ) -> TransformerState:
        """The decoder that sees only the first `read` source tokens."""
        layers = seen(state.layers, read, finished)
        return state._replace(layers=layers, clock=self.clock.seen(state.clock, read, finished))

    def step(
        self, token: Int[Tensor, "B"], state: TransformerState, moves: MayMove = None
    ) -> DecoderStep:
        """One target step through all layers."""
        if self.several is not None:
            return self.several.step(self, token, state)
        stand = self.clock.step(state.clock, token, moves)
        x, visible = self.next_inputs(token[:, None], state)
        x, layers, steps = self.decoder.step(x, visible, state.layers, stand)
        states = self.decoder_norm(x)[:, 0]
        after = TransformerState(layers, state.step + 1, carried(stand))
        return join_layers(self.logits(states), after, steps, self.confidence_logit(states))

    def replay(self, tokens: TokenIds, state: TransformerState) -> TransformerState:
        """The decoder after N target steps, layer by layer if a clock decides."""
        at_once = self.mechanism.clocked and not self.mechanism.several_states
        if not at_once or not tokens.shape[1]:
            return super().replay(tokens, state)
        clock, stands = state.clock, list[Stand]()
        for token in tokens.unbind(1):
            stand = self.clock.step(clock, token)
            assert isinstance(stand, Stand), "a clock decides"
            stands.append(stand)
            clock = stand.state
        x, visible = self.next_inputs(tokens, state)
        layers = self.decoder.replay(x, visible, state.layers, together(stands))
        return TransformerState(layers, state.step + tokens.shape[1], clock)

    def next_inputs(
        self, tokens: TokenIds, state: TransformerState
    ) -> tuple[Float[Tensor, "B N D"], Tensor | None]:
        """The next target tokens, embedded, and the mask of their self-attention."""
        start, before = state.step[:, None], state.layers[0].self_keys.shape[2]
        x = self.embed(tokens, start)
        visible = visible_after(before, x, start)
        return x, emphasised(self.clock, visible, tokens, "target", before, start)

    def logits(self, states: Float[Tensor, "B D"]) -> Float[Tensor, "B V"]:
        """The logits of the next tokens."""
        weight = self.embedding.output or self.embedding.weight
        return Projection(weight, self.output_bias).of_step(states)  # type: ignore[arg-type]

    def embedded(self, tokens: TokenIds, start: Starts, side: Side) -> Float[Tensor, "B N D"]:
        """Embedded tokens with their positions; both sides share the embeddings."""
        return self.embedding.placed(tokens, start)

    def embed(
        self,
        tokens: TokenIds,
        first: Int[Tensor, "B 1"] | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        """Embedded tokens at the positions `first`, 0 by default, and following."""
        first = tokens.new_zeros(1, 1) if first is None else first
        return self.dropout(self.embedding.placed(tokens, first, weight))  # type: ignore[no-any-return]


def _check_history(model: Transformer, average_embedding: bool) -> None:
    """Check that a model can see earlier segments.

    Raises:
        UserError: it cannot.
    """
    plain = model.extends and not model.sees_words and not model.mechanism.several_states
    if model.history and not (plain and not average_embedding):
        raise UserError(
            f"data.history={model.history} needs model.encoder=causal, "
            "model.average_embedding=false and a mechanism with one state for each target token: "
            "change these, or set data.history=0"
        )


def _check(mechanism: Mechanism, encoder: str, average_embedding: bool, boundaries: bool) -> None:
    """Check that a mechanism and the options of the encoder go together.

    Raises:
        UserError: they do not.
    """
    if encoder == BY_WORD and not (mechanism.reads_words or mechanism.offline):
        raise UserError(
            f"model.encoder=by_word waits for the end of each word, and mechanism={mechanism.name} "
            "reads subwords; set mechanism.source_unit=word, or model.encoder=causal"
        )
    if encoder == REENCODING and average_embedding:
        raise UserError(
            "model.average_embedding adds later tokens to the states of a causal encoder, "
            "but model.encoder=reencoding encodes them anyway; use one of the two"
        )
    if encoder == REENCODING and boundaries:
        raise UserError(
            "model.boundaries=true needs states that later text does not change: take "
            "model.encoder=causal, or model.boundaries=false and evaluate with cut=likelihood"
        )
    if mechanism.several_states and (encoder == REENCODING or average_embedding):
        raise UserError(
            f"mechanism={mechanism.name} attends to states that never change; take "
            "model.encoder=causal and model.average_embedding=false"
        )
