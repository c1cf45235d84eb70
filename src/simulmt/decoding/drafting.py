"""Drafts of many sentences at once: how each translation goes on after what has been read.

The decoder runs again over what is written. A model trained on whole sentences expects to have seen
all that is read at each of its steps. Any other model decides from what had been read when a
subword was written, so its earlier steps see no more than that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from simulmt.decoding.policy import Draft, Policy, Word, length_limit, likeliest
from simulmt.decoding.sentence import Drafted, Read, Sentence
from simulmt.models.model import DecoderStep, Model, State, select


@dataclass(eq=False)
class _Row:
    """The draft of one sentence as it grows."""

    sentence: Sentence
    read: Read
    limit: int
    most: int | None
    tokens: list[int] = field(default_factory=list)
    words: list[list[int]] = field(default_factory=list)
    probability: list[float] = field(default_factory=list)
    attention: list[list[float]] = field(default_factory=list)
    positions: list[list[int]] = field(default_factory=list)

    def add(self, token: int, begins: bool) -> bool:
        """Add a subword to the draft; return whether it was one word too many."""
        if begins or not self.words:
            if self.most is not None and len(self.words) == self.most:
                return False
            self.words.append([])
        self.words[-1].append(token)
        self.tokens.append(token)
        return True


@dataclass(frozen=True)
class Drafter:
    """Drafts greedily.

    Args:
        model: in evaluation mode.
        policy: says how much of a draft is needed.
        begins: for each subword of the vocabulary, whether it begins a word.
    """

    model: Model
    policy: Policy
    begins: Bool[Tensor, "V"]

    def __call__(
        self, state: State, sentences: Sequence[Sentence], reads: Sequence[Read]
    ) -> list[Drafted]:
        """The draft of each sentence.

        Args:
            state: the decoder before its first step, a row for each sentence; its source may go on
                after what is read if the encoder is causal.
            sentences: what is written.
            reads: what is read.
        """
        device = self.begins.device
        subwords = torch.tensor([read.subwords for read in reads], device=device)
        limits = length_limit(subwords).tolist()
        rows = [
            _Row(sentence, read, limit, sentence.most(read))
            for sentence, read, limit in zip(sentences, reads, limits, strict=True)
        ]
        drafts, numbers = list[Drafted | None]([None] * len(rows)), [*range(len(rows))]
        offline = self.model.mechanism.offline
        if offline:
            state = self._seen(state, subwords)
        token = torch.full_like(subwords, self.model.vocabulary.bos)
        for number in count():
            if not offline:
                state = self._seen(state, _read_at(number, rows, device))
            step = self.model.step(token, state)
            chosen, closed = self._choose(number, step, rows)
            going = [n for n, next_token in enumerate(chosen) if next_token is not None]
            for n, row in enumerate(rows):
                if chosen[n] is None:
                    drafts[numbers[n]] = _finished(row, closed[n])
            if not going:
                return [draft for draft in drafts if draft is not None]
            rows, numbers = [rows[n] for n in going], [numbers[n] for n in going]
            token = torch.tensor([chosen[n] for n in going], device=device)
            state = step.state
            if len(going) < len(chosen):
                state = select(state, torch.tensor(going, device=device))
        raise AssertionError

    def _seen(self, state: State, read: Tensor) -> State:
        """The decoder that sees so much and never waits for more."""
        return self.model.seen(state, read, torch.ones_like(read, dtype=torch.bool))

    def _choose(
        self, number: int, step: DecoderStep, rows: Sequence[_Row]
    ) -> tuple[list[int | None], list[bool]]:
        """The next subword of each row, None at its end, and whether the last word is whole."""
        vocabulary = self.model.vocabulary
        first = [n for n, row in enumerate(rows) if number == len(row.sentence.written.tokens) > 0]
        logits = step.logits
        if first:  # what is written are whole words
            inside = ~self.begins
            inside[vocabulary.eos] = False
            logits = logits.clone()
            logits[first] = logits[first].masked_fill(inside, -torch.inf)
        best = likeliest(logits, vocabulary)
        log_p = logits.double().log_softmax(-1).gather(1, best[:, None])[:, 0]
        layer = self.policy.attends(len(step.weights))
        attention = None if layer is None else step.weights[layer - 1].double().mean(1).tolist()
        positions = step.positions.tolist()
        tokens, begins = best.tolist(), self.begins[best].tolist()
        probabilities = log_p.exp().tolist()
        chosen, closed = list[int | None](), list[bool]()
        for n, row in enumerate(rows):
            written = row.sentence.written.tokens
            if number < len(written):
                chosen.append(written[number])
                closed.append(False)
                continue
            ends = tokens[n] == vocabulary.eos
            full = not ends and number >= row.limit
            if ends or full or not row.add(tokens[n], begins[n]):
                chosen.append(None)
                closed.append(not full)
                continue
            chosen.append(tokens[n])
            closed.append(False)
            row.probability.append(probabilities[n])
            row.positions.append(positions[n])
            if attention is not None:
                row.attention.append(attention[n][: row.read.subwords])
        return chosen, closed


def _read_at(number: int, rows: Sequence[_Row], device: torch.device) -> Tensor:
    """What had been read at a step of the decoder."""
    delays = [(row.sentence.written.delays, row.read.subwords) for row in rows]
    seen = [past[number] if number < len(past) else now for past, now in delays]
    return torch.tensor(seen, device=device)


def _finished(row: _Row, closed: bool) -> Drafted:
    words: list[Word] = [tuple(word) for word in row.words]
    draft = Draft(
        written=tuple(row.sentence.words),
        words=tuple(words if closed else words[:-1]),
        tokens=tuple(row.tokens),
        probability=np.array(row.probability),
        attention=np.array(row.attention or np.empty((0, row.read.subwords))),
    )
    return Drafted(draft, row.positions)
