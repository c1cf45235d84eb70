"""The interface of translation models for training and decoding."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from typing_extensions import TypeVar

from simulmt.attention import TRAINED, Mechanism, Moment, Past, Source
from simulmt.attention.clock import Clock, Side
from simulmt.attention.plan import MayMove
from simulmt.attention.shapes import Starts, TokenIds
from simulmt.attention.state import State
from simulmt.attention.words import OncePerWord, ends_of_words
from simulmt.errors import UserError
from simulmt.models.boundary import BoundaryPointer
from simulmt.models.results import DecoderStep, Translation
from simulmt.models.vocabulary import Vocabulary

DecoderState = TypeVar("DecoderState", bound=State, default=Any)
"""The state of a model's decoder between two target steps."""
EncoderState = TypeVar("EncoderState", bound=State, default=Any)
"""The state of a model's encoder between two source tokens."""


def length_limit(read: Int[Tensor, "B"]) -> Int[Tensor, "B"]:
    """The most target tokens that may be written after so many source tokens.

    The limit depends on `read` alone, so that a stream stops where a batch does.
    """
    return 2 * read + 20


class Model(nn.Module, ABC, Generic[DecoderState, EncoderState]):
    """A translation model with a pluggable mechanism.

    Args:
        vocabulary: the subwords, shared by both languages.
        mechanism: builds the clock, if a clock decides when to read.
        dim: width D of the model.
        causal: True if source states depend on their prefix only, so that `encode_next` can encode
            the next tokens.

    Raises:
        UserError: the mechanism gives a token several states, and the decoder takes one.
    """

    usual_beam: ClassVar[int]
    """Usual beam of beam search, for mechanisms that read the whole sentence first."""
    loops: ClassVar[bool] = True
    """True if `encode` or `decode` loops over tokens; others can be compiled and recomputed."""
    takes_several_states: ClassVar[bool] = False
    """True if the decoder can take a target token in several states."""

    length_limit: Callable[[Int[Tensor, "B"]], Int[Tensor, "B"]] = staticmethod(length_limit)
    """Ends a translation that does not end by itself."""
    attending_layers: int = 1
    """The number of decoder layers that attend to the source."""
    extends: bool
    """True if `encode_next` and `extend`, piece by piece, give all that `encode` gives at once;
    False if the encoder runs again on each prefix."""
    reads_words: bool
    """True if `encode_next` takes whole words."""
    history: int = 0
    """The most tokens of earlier segments, on either side, that a segment of a stream sees."""
    joins: bool = False
    """True if sentences at different positions can be encoded and decoded in one batch, their
    states joined by `simulmt.models.joined`."""

    def __init__(
        self, vocabulary: Vocabulary, mechanism: Mechanism, dim: int, causal: bool
    ) -> None:
        super().__init__()
        if mechanism.several_states and not self.takes_several_states:
            raise UserError(
                f"mechanism={mechanism.name} computes several states of each target token, which "
                f"{type(self).__name__} cannot; take model=transformer"
            )
        self.vocabulary, self.mechanism, self.dim = vocabulary, mechanism, dim
        read = vocabulary.begins or (True,) * vocabulary.size
        self._read_begins = torch.from_numpy(np.array(read))
        self._begins = self._read_begins | vocabulary.whole
        self.clock: Clock = mechanism.clock(dim, self.embedded)
        if mechanism.clocked and mechanism.writes_words:
            self.clock = OncePerWord(self.clock, self._begins)
        self.confidence: nn.Linear | None = None
        self.boundary: BoundaryPointer | None = None
        self.causal = self.extends = causal
        self.reads_words = mechanism.reads_words

    @abstractmethod
    def encode(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], past: Past | None = None
    ) -> Source:
        """Encode whole sentences; for prefixes, the caller replaces `finished` in the result.

        Args:
            source: token ids, EOS last, padded on the right.
            mask: True for real tokens.
            past: what precedes them in streams, for a model with a `history`.
        """

    @abstractmethod
    def decode(
        self, source: Source, target_input: Int[Tensor, "B T"], moment: Moment = TRAINED
    ) -> Translation:
        """Teacher forcing, in expectation over reading.

        Args:
            source: whole sentences.
            target_input: the decoder's input, BOS first.
            moment: how far the training is.
        """

    def forward(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"],
        target_input: Int[Tensor, "B T"],
        moment: Moment = TRAINED,
    ) -> Translation:
        """Encode, then decode."""
        return self.decode(self.encode(source, source_mask), target_input, moment)

    @abstractmethod
    def start(self, source: Source) -> DecoderState:
        """The decoder before its first target step, from the source tokens read so far."""

    @abstractmethod
    def encode_next(
        self, tokens: TokenIds, state: EncoderState | None
    ) -> tuple[Source, EncoderState]:
        """Encode the next source tokens of each sentence.

        Args:
            tokens: any number of them; one word, or EOS, if the model `reads_words`.
            state: the encoder's state after the tokens before; None before the first one.

        Returns:
            Their part of what `encode` gives at once, and the encoder's state after them.
        """

    @abstractmethod
    def extend(self, state: DecoderState, source: Source) -> DecoderState:
        """The decoder after more of the source has been read; `source` comes from `encode_next`."""

    @abstractmethod
    def seen(
        self, state: DecoderState, read: Int[Tensor, "B"], finished: Bool[Tensor, "B"]
    ) -> DecoderState:
        """The decoder that sees only the first `read` of the source tokens that `state` holds.

        For causal encoders, whose states do not depend on what follows; for others `read` has to
        be all tokens. Where `finished`, the decoder never wants to read.
        """

    @abstractmethod
    def step(
        self, token: Int[Tensor, "B"], state: DecoderState, moves: MayMove = None
    ) -> DecoderStep:
        """One target step with hard decisions.

        Args:
            token: the last one written, or BOS.
            state: the decoder's state before the step.
            moves: True where heads may read on, for mechanisms that write whole words; None for
                the rule of training.
        """

    def replay(self, tokens: TokenIds, state: DecoderState) -> DecoderState:
        """The decoder after target steps whose results are known.

        Args:
            tokens: the inputs of the steps, as in `step`.
            state: the decoder before them, for which no step asks for more of the source.
        """
        for token in tokens.unbind(1):
            state = cast("DecoderState", self.step(token, state).state)
        return state

    @abstractmethod
    def embedded(self, tokens: TokenIds, start: Starts, side: Side) -> Float[Tensor, "B N D"]:
        """Embedded tokens for a clock, as in `simulmt.attention.clock.Embed`."""

    def recompute_layers(self) -> None:
        """Let the backward pass compute each layer again, to save memory."""
        raise NotImplementedError

    def confidence_head(self, width: int) -> nn.Linear | None:
        """The layer that turns last states of some width into a confidence, if there is one."""
        return nn.Linear(width, 1) if self.mechanism.confident else None

    def confidence_logit(self, states: Float[Tensor, "*N E"]) -> Float[Tensor, "*N"] | None:
        """The logit of the confidence at each of the decoder's last states."""
        return None if self.confidence is None else self.confidence(states)[..., 0]

    @property
    def begins(self) -> Bool[Tensor, "V"]:
        """True for each target subword that begins a word."""
        return self._begins.to(next(self.parameters()).device)

    def word_ends(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]
    ) -> Bool[Tensor, "B S"]:
        """Where the words of a source end; EOS is a separate word."""
        begins = self._read_begins.to(source.device)
        return ends_of_words(source, mask, begins, self.vocabulary.opening)

    def encoded(
        self,
        tokens: TokenIds,
        states: Float[Tensor, "B N D"],
        mask: Bool[Tensor, "B N"] | None = None,
        averages: Float[Tensor, "B N D"] | None = None,
        prefixes: Float[Tensor, "B P M D"] | None = None,
    ) -> Source:
        """The `Source` of whole sentences or, without a mask, of the next tokens.

        The next tokens are finished if the last one is EOS.
        """
        finished = torch.ones_like(tokens[:, 0], dtype=torch.bool)
        if mask is None:
            mask, finished = (
                torch.ones_like(tokens, dtype=torch.bool),
                tokens[:, -1] == self.vocabulary.eos,
            )
        ends = self.word_ends(tokens, mask) if self.reads_words else None
        return Source(tokens, states, mask, finished, averages, prefixes, ends)


def check_width(dim: int, heads: int, each: int = 1) -> None:
    """Check that the width of each head is a multiple of `each`.

    Raises:
        UserError: it is not.
    """
    if dim % (each * heads):
        raise UserError(
            f"model.dim is {dim} with model.heads={heads}; it must be a multiple of {each * heads}"
        )


def is_causal(encoder: str, mechanism: Mechanism) -> bool:
    """True if an encoder's states depend on past tokens only.

    Args:
        encoder: `causal`, `bidirectional`, or `auto`: bidirectional if the mechanism reads the
            whole sentence first, else causal.
        mechanism: the attention to the encoder's states.

    Raises:
        UserError: bidirectional with a mechanism that streams.
    """
    if encoder == "bidirectional" and not mechanism.offline:
        raise UserError(
            f"model.encoder=bidirectional reads the whole sentence, but mechanism="
            f"{mechanism.name} streams; set model.encoder=causal, or mechanism=soft"
        )
    return encoder == "causal" or not mechanism.offline
