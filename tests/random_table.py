"""A model that looks up random distributions in a table, for references of decoding."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from simulmt.attention import Mechanism
from simulmt.attention.words import ends_of_words
from simulmt.models.model import Model
from simulmt.models.results import DecoderStep
from simulmt.models.vocabulary import Vocabulary
from zoo import BOS, EOS, PAD

SIZE = 14
"""Of the vocabulary."""
LONGEST = 13
"""Source tokens, EOS included."""
LAYERS = 4
"""The most layers."""
NORMAL = np.random.default_rng(1).standard_normal((5000, SIZE + 1 + 2 * LAYERS * LONGEST))
SHARES = np.random.default_rng(2).random((5000, 3 + LONGEST))


class Says(NamedTuple):
    """What the model says of the next subword; (layers, 2 heads, source) attention."""

    logits: np.ndarray
    attention: np.ndarray
    confidence: float


class ToyState(NamedTuple):
    """The source and how much of it is read; the decoder's inputs, and how much was read then."""

    tokens: Tensor
    read: Tensor
    target: Tensor
    saw: Tensor
    past: Any = None


@Model.register
@dataclass(eq=False)
class Toy:
    """Says something of its own after each source, target, and numbers of tokens that it saw.

    The likeliest token may be PAD or BOS, and the attention to a token may be 0.

    Args:
        seed: the table, from 0 to 4999.
        mechanism: tells the drivers how to treat the model.
        causal: True if the encoder goes on, False if it runs again.
        eos: added to the logit of EOS.
        begin: the share of subwords that begin a word.
        agree: the share of targets after which the logits do not depend on the source.
    """

    seed: int
    mechanism: Mechanism
    causal: bool
    attending_layers: int
    eos: float
    begin: float
    agree: float
    length_limit: Callable[[Any], Any]
    known: dict[Any, Says] = field(default_factory=dict)
    history, joins = 0, False

    def __post_init__(self) -> None:
        self.begins = torch.tensor(SHARES[self.seed, :SIZE] < self.begin)
        self.begins[:5] = True
        self.vocabulary = Vocabulary(SIZE, begins=tuple(self.begins.tolist()))
        self.extends = self.causal

    def says(self, source: Sequence[int], target: Sequence[int], saw: Sequence[int]) -> Says:
        """The entry of the table for a source, inputs of the decoder, and what it saw then."""
        key = *source, -1, *target, -1, *saw
        if key not in self.known:
            normal, share = self._row(key)
            base = normal if share[0] > self.agree else self._row(target)[0]
            logits = 2 * base[:SIZE]
            logits[[PAD, BOS]] += 2
            logits[EOS] += self.eos
            shape = self.attending_layers, 2, len(source)
            attention = np.exp(2 * normal[SIZE + 1 :][: math.prod(shape)].reshape(shape))
            if share[1] < 0.3:
                some = share[3:][: len(source)] < 0.3
                some[int(share[2] * max(len(source) - 1, 1))] = True  # not the EOS that closes it
                attention *= some
            attention /= attention.sum(-1, keepdims=True)
            self.known[key] = Says(logits, attention, float(3 * normal[SIZE]))
        return self.known[key]

    def _row(self, key: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        row = zlib.crc32(repr((self.seed, *key)).encode()) % len(NORMAL)
        return NORMAL[row], SHARES[row]

    def word_ends(self, source: Tensor, mask: Tensor) -> Tensor:
        return ends_of_words(source, mask, self.begins)

    def encode(self, source: Tensor, mask: Tensor) -> ToyState:
        return ToyState(source, mask.sum(1), source[:, :0], source[:, :0])

    def encode_next(self, tokens: Tensor, state: Any) -> tuple[ToyState, Tensor]:
        return self.encode(tokens, tokens >= 0), tokens[:, :1]

    def start(self, source: ToyState) -> ToyState:
        return source

    def extend(self, state: ToyState, source: ToyState) -> ToyState:
        tokens = torch.cat([state.tokens, source.tokens], 1)
        return state._replace(tokens=tokens, read=state.read + source.read)

    def seen(self, state: ToyState, read: Tensor, finished: Tensor) -> ToyState:
        assert finished.all(), "a draft does not wait"
        return state._replace(read=read)

    def step(self, token: Tensor, state: ToyState) -> DecoderStep:
        target = torch.cat([state.target, token[:, None]], 1)
        saw = torch.cat([state.saw, state.read[:, None]], 1)
        rows = zip(*(x.tolist() for x in (state.tokens, state.read, target, saw)), strict=True)
        said = [self.says(source[:read], *others) for source, read, *others in rows]
        weights = np.zeros((self.attending_layers, len(said), 2, state.tokens.shape[1]))
        for row, one in enumerate(said):
            weights[:, row, :, : one.attention.shape[2]] = one.attention
        return DecoderStep(
            logits=torch.tensor(np.array([one.logits for one in said])),
            state=state._replace(target=target, saw=saw),
            positions=state.read[:, None],
            read=state.read,
            wants_to_read=state.read < 0,
            weights=tuple(torch.tensor(weights)),
            confidence=torch.tensor([one.confidence for one in said]),
        )

    def replay(self, tokens: Tensor, state: ToyState) -> ToyState:
        for token in tokens.unbind(1):
            state = self.step(token, state).state
        return state
