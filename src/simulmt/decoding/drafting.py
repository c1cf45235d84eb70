"""Drafts of many sentences at once: how each translation would continue from what has been read.

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
from simulmt.decoding.overruled import overruled
from simulmt.decoding.own_decision import next_step
from simulmt.decoding.policy import Draft, Policy, Subword, Word, likeliest
from simulmt.decoding.search import GREEDY, Search
from simulmt.decoding.sentence import Read, Sentence
from simulmt.errors import UserError
from simulmt.models.model import Model
from simulmt.models.results import DecoderStep
from simulmt.models.vocabulary import Vocabulary


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
    subwords: list[Subword] = field(default_factory=list)
    closed: bool = False
    """True if the last word is whole, as the next word begins."""
    ends: bool = False

    def next_input(self, number: int, found: Subword, vocabulary: Vocabulary) -> int | None:
        """The decoder's input after step `number`; None at the end of the draft."""
        written = self.sentence.written.tokens
        if number < len(written):
            return written[number]
        end = vocabulary.eos if self.read.told else vocabulary.bos  # BOS: the prefix is translated
        if found.token == end or number >= self.limit:
            return None
        begins = found.begins or not self.words
        seen = found.attention[: self.read.subwords]  # without the EOS that closes a prefix
        seen = seen / (seen.sum() or 1)
        found, word = found._replace(begins=begins, attention=seen), len(self.words) - (not begins)
        enough = begins and self.most is not None and word == self.most
        if enough or self.sentence.halts(self.read, word, found):
            self.closed = begins
            return None
        if begins:
            self.words.append([])
        self.words[-1].append(found.token)
        self.subwords.append(found)
        self.closed = self.ends = found.token == vocabulary.eos
        return None if self.ends else found.token

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
            subwords=tuple(self.subwords),
            ends=self.ends,
        )


def shown(model: Model, reads: Sequence[Read], device: torch.device) -> Int[Tensor, "B"]:
    """The number of source tokens that the decoder sees.

    An encoder that was trained on whole sentences only, and runs again on each prefix, gets EOS
    after the prefix. Without EOS the decoder would find no end. SM2, and models that end the
    segments of a stream, are trained on bare prefixes.
    """
    closed = not (model.causal or model.mechanism.confident)
    counts = [read.subwords + (closed and read.told and not read.ended) for read in reads]
    return torch.tensor(counts, device=device)


class Drafter:
    """Drafts greedily, or by a beam search.

    Args:
        model: in evaluation mode.
        policy: commits words of the drafts.
        search: greedy, or a beam for models that were trained on whole sentences.

    Raises:
        UserError: the policy makes no sense for the model.
    """

    def __init__(self, model: Model, policy: Policy, search: Search = GREEDY) -> None:
        demands = policy.demands(model.mechanism)
        if misfit := demands.misfit(model.attending_layers):
            raise UserError(f"{type(policy).__name__} does not suit the model: {misfit}")
        self.model = overruled(model) if demands.overrules else model
        """The model that drafts."""
        self._layer, self._search = demands.layer_of(model.attending_layers), search
        self._distribution = demands.distribution

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
        limit = self.model.length_limit(subwords)
        rows = [
            _Row(sentence, read, longest, sentence.most(read))
            for sentence, read, longest in zip(sentences, reads, limit.tolist(), strict=True)
        ]
        offline, going = self.model.mechanism.offline, rows
        seen = shown(self.model, reads, subwords.device)
        if offline:
            state = self._seen(state, seen)
        if self._search.beam > 1:
            prefix = [sentence.written.tokens for sentence in sentences]
            best = search_from(self.model, state, seen, self._search, prefix, limit=limit)
            for row, hypothesis in zip(rows, best, strict=True):
                row.given = hypothesis.tokens
        bos = torch.full_like(subwords, self.model.vocabulary.bos)
        state, token, first = self._replayed(state, bos, sentences)
        for number in count(first):
            if not offline:
                state = self._seen(state, self._tensor([row.read_at(number) for row in going]))
            step = self._step(number, token, state, going)
            found = zip(going, self._predicted(number, step, going), strict=True)
            chosen = [
                row.next_input(number, subword, self.model.vocabulary) for row, subword in found
            ]
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

        0 steps for a model that saw less of the source at earlier steps: it takes each again.
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
        """The decoder that sees `read` source tokens and never waits for more."""
        after: State = self.model.seen(state, read, torch.ones_like(read, dtype=torch.bool))
        return after

    def _step(
        self, number: int, token: Int[Tensor, "B"], state: State, rows: Sequence[_Row]
    ) -> DecoderStep:
        """Step `number` of the model; written words are known, and after them a word begins."""
        mechanism = self.model.mechanism
        if mechanism.offline or not mechanism.writes_words:
            return self.model.step(token, state)
        eos = self.model.vocabulary.eos
        written = [row.sentence.written.tokens for row in rows]
        length = self._tensor([len(tokens) for tokens in written])
        known = self._tensor(
            [tokens[number] if number < len(tokens) else eos for tokens in written]
        )
        begins = self.model.begins[known] & (number <= length)
        return next_step(self.model, token, state, begins, (number < length) & ~begins)

    def _predicted(self, number: int, step: DecoderStep, rows: Sequence[_Row]) -> list[Subword]:
        """The next subword of each sentence; after whole words a word begins."""
        vocabulary, logits = self.model.vocabulary, step.logits
        first = [n for n, row in enumerate(rows) if number == len(row.sentence.written.tokens) > 0]
        if first:
            logits = logits.clone()
            logits[first] = logits[first].masked_fill(~self.model.begins, -torch.inf)
        best = likeliest(logits, vocabulary)
        goes_on = torch.tensor([not row.read.told for row in rows], device=best.device)
        ends = goes_on & (logits[:, vocabulary.bos] > logits.gather(1, best[:, None])[:, 0])
        best = best.masked_fill(ends, vocabulary.bos)
        for n, row in enumerate(rows):
            if row.given is not None:
                best[n] = [*row.given, vocabulary.eos][number]
        p = (logits.gather(1, best[:, None])[:, 0] - logits.logsumexp(1)).double().exp()
        attention, confidence = p.new_empty(len(rows), 0), torch.full_like(p, torch.nan)
        if self._layer is not None:
            attention = step.weights[self._layer - 1].double().mean(1)
        if step.confidence is not None:
            confidence = step.confidence.double().sigmoid()
        distribution = logits.double().softmax(-1) if self._distribution else logits[:, :0]
        columns = [column.tolist() for column in (best, self.model.begins[best], p, confidence)]
        arrays = attention.cpu().numpy(), step.positions.tolist(), distribution.cpu().numpy()
        return [*map(Subword, *columns, *arrays)]
