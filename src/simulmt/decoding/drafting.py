"""Drafts of many sentences at once: how each translation goes on after what has been read.

The decoder runs again over what is written. A model trained on whole sentences expects to have seen
all that is read at each of its steps. Any other model decides from what had been read when a
subword was written, so its earlier steps see no more than that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import torch
from jaxtyping import Int
from torch import Tensor

from simulmt.attention.state import State, select
from simulmt.decoding.beam import search_from
from simulmt.decoding.policy import Draft, Policy, Subword, Word, length_limit, likeliest
from simulmt.decoding.search import GREEDY, Search
from simulmt.decoding.sentence import Read, Sentence
from simulmt.models.model import Model
from simulmt.models.results import DecoderStep


@dataclass(eq=False)
class _Row:
    """The draft of one sentence as it grows."""

    sentence: Sentence
    read: Read
    limit: int
    most: int | None
    given: Sequence[int] | None = None
    """The hypothesis of a beam search; None for greedy steps."""
    words: list[list[int]] = field(default_factory=list)
    said: list[Subword] = field(default_factory=list)
    closed: bool = False
    """Whether the last word is whole, as the next word begins."""

    def go_on(self, number: int, said: Subword, eos: int) -> int | None:
        """Take a step of the decoder; return the next input, or None at the end of the draft."""
        written = self.sentence.written.tokens
        if number < len(written):
            return written[number]
        if said.token == eos or number >= self.limit:
            return None
        begins = said.begins or not self.words
        seen = said.attention[: self.read.subwords]  # without the EOS that closes a prefix
        seen = seen / (seen.sum() or 1)
        said, word = said._replace(begins=begins, attention=seen), len(self.words) - (not begins)
        enough = begins and self.most is not None and word == self.most
        if enough or self.sentence.halts(self.read, word, said):
            self.closed = begins
            return None
        if begins:
            self.words.append([])
        self.words[-1].append(said.token)
        self.said.append(said)
        return said.token

    def read_at(self, number: int) -> int:
        """What had been read when subword `number` was written; for the draft, what is read now."""
        delays = self.sentence.written.delays
        return delays[number] if number < len(delays) else self.read.subwords

    def draft(self) -> Draft:
        """The finished draft."""
        words: list[Word] = [tuple(word) for word in self.words]
        return Draft(
            written=tuple(self.sentence.words),
            words=tuple(words if self.closed else words[:-1]),
            subwords=tuple(self.said),
        )


def shown(model: Model, reads: Sequence[Read], device: torch.device) -> Int[Tensor, "B"]:
    """The number of source tokens that the decoder sees.

    An encoder that was trained on whole sentences only, and runs again on each prefix, gets EOS
    after the prefix. Without EOS the decoder would find no end. SM2 is trained on bare prefixes.
    """
    closed = not (model.causal or model.mechanism.confident)
    counts = [read.subwords + (closed and not read.ended) for read in reads]
    return torch.tensor(counts, device=device)


@dataclass(frozen=True)
class Drafter:
    """Drafts greedily, or by a beam search.

    Args:
        model: in evaluation mode.
        policy: says how much of a draft is needed.
        search: greedy, or a beam for models that were trained on whole sentences.
    """

    model: Model
    policy: Policy
    search: Search = GREEDY

    def __call__(
        self, state: State, sentences: Sequence[Sentence], reads: Sequence[Read]
    ) -> list[Draft]:
        """The draft of each sentence.

        Args:
            state: the decoder before its first step, a row for each sentence; its source may go on
                after what is read if the encoder is causal.
            sentences: what is written.
            reads: what is read.
        """
        subwords = self._tensor([read.subwords for read in reads])
        limits = length_limit(subwords).tolist()
        rows = [
            _Row(sentence, read, limit, sentence.most(read))
            for sentence, read, limit in zip(sentences, reads, limits, strict=True)
        ]
        offline, eos, going = self.model.mechanism.offline, self.model.vocabulary.eos, rows
        seen = shown(self.model, reads, subwords.device)
        if offline:
            state = self._seen(state, seen)
        if self.search.beam > 1:
            prefix = [sentence.written.tokens for sentence in sentences]
            best = search_from(self.model, state, seen, self.search, prefix)
            for row, hypothesis in zip(rows, best, strict=True):
                row.given = hypothesis.tokens
        bos = torch.full_like(subwords, self.model.vocabulary.bos)
        state, token, first = self._replayed(state, bos, sentences)
        for number in count(first):
            if not offline:
                state = self._seen(state, self._tensor([row.read_at(number) for row in going]))
            step = self.model.step(token, state)
            said = self._say(number, step, going)
            chosen = [row.go_on(number, one, eos) for row, one in zip(going, said, strict=True)]
            left = [n for n, following in enumerate(chosen) if following is not None]
            if not left:
                break
            token = self._tensor([following for following in chosen if following is not None])
            state = step.state
            if len(left) < len(going):
                state = select(state, self._tensor(left))
            going = [going[n] for n in left]
        return [row.draft() for row in rows]

    def _replayed(
        self, state: State, bos: Int[Tensor, "B"], sentences: Sequence[Sentence]
    ) -> tuple[State, Int[Tensor, "B"], int]:
        """The decoder after the steps that every sentence has written, its input and number then.

        A model that saw less of the source at earlier steps takes each step anew: 0 steps.
        """
        if not self.model.mechanism.offline:
            return state, bos, 0
        written = zip(*(sentence.written.tokens for sentence in sentences), strict=False)
        *known, newest = bos, *map(self._tensor, written)
        if known:
            state = self.model.replay(torch.stack(known, 1), state)
        return state, newest, len(known)

    def _tensor(self, values: Sequence[int]) -> Int[Tensor, "B"]:
        return torch.tensor(values, device=self.model.begins.device)

    def _seen(self, state: State, read: Int[Tensor, "B"]) -> State:
        """The decoder that sees so much and never waits for more."""
        after: State = self.model.seen(state, read, torch.ones_like(read, dtype=torch.bool))
        return after

    def _say(self, number: int, step: DecoderStep, rows: Sequence[_Row]) -> list[Subword]:
        """What the decoder says at a step of each sentence; after whole words a word begins."""
        vocabulary, logits = self.model.vocabulary, step.logits
        first = [n for n, row in enumerate(rows) if number == len(row.sentence.written.tokens) > 0]
        if first:
            logits = logits.clone()
            logits[first] = logits[first].masked_fill(~self.model.begins, -torch.inf)
        best = likeliest(logits, vocabulary)
        for n, row in enumerate(rows):
            if row.given is not None:
                best[n] = [*row.given, vocabulary.eos][number]
        p = logits.double().softmax(-1).gather(1, best[:, None])[:, 0]
        layer = self.policy.attends(len(step.weights))
        attention, sure = p.new_empty(len(rows), 0), torch.full_like(p, torch.nan)
        if layer is not None:
            attention = step.weights[layer - 1].double().mean(1)
        if step.confidence is not None:
            sure = step.confidence.double().sigmoid()
        columns = [column.tolist() for column in (best, self.model.begins[best], p, sure)]
        return [*map(Subword, *columns, attention.cpu().numpy(), step.positions.tolist())]
