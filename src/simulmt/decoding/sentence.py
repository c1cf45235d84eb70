"""One sentence under a policy: what is read, what is written, and what is only shown."""

from collections.abc import Sequence
from operator import index
from typing import NamedTuple

from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.policy import Counts, Draft, Policy, Subword, Word, common_length


class Read(NamedTuple):
    """How much of the source has been read; a source word is read as a whole."""

    words: int
    subwords: int
    """EOS included."""
    ended: bool
    """True once EOS has been read."""
    told: bool = True
    """False in a stream: the model ends sentences itself, and a draft may include the end."""


class Sentence:
    """The words of one sentence that are written or shown, in a batch or in a stream.

    Args:
        policy: commits words of drafts.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.written = Hypothesis([], [], [])
        """What is final; each delay counts the subwords read until then, EOS included."""
        self.words = list[Word]()
        """The words that are final."""
        self.shown = list[Word]()
        """The words of the newest draft, if the policy revises; the last may be unfinished."""
        self.done = False
        self._erased = list[Word]()
        self._changed = list[int]()
        self._drafts = tuple[Draft, ...]()

    def most(self, read: Read) -> int | None:
        """The most words that may be written now; None for all, 0 if no draft is needed."""
        if read.ended or (most := self.policy.most(self._counts(read))) is None:
            return None
        return max(most, 0)

    def halts(self, read: Read, word: int, subword: Subword) -> bool:
        """True if the draft may end before a subword, which is not written now."""
        return not read.ended and self.policy.halts(self._counts(read), word, subword)

    def take(self, draft: Draft, read: Read) -> None:
        """Write what the policy commits of a draft; all of it if the source has ended."""
        if self.policy.revises:
            self._show(split(draft), read)
        if read.ended:
            self._write(draft.subwords, read)
            self.words += split(draft)
            self.done = True
            return
        drafts = (*self._drafts, draft)
        most = self.most(read)
        limit = len(draft.words) if most is None else min(most, len(draft.words))
        committed = index(self.policy.commit(self._counts(read), drafts))  # TypeError for no number
        count = max(min(committed, limit), 0)
        self.done = draft.ends and count == len(draft.words)
        words = draft.words[: count - self.done]
        self._write(draft.subwords[: sum(map(len, words))], read)
        self.words += words
        self._drafts = drafts[max(len(drafts) - self.policy.past, 0) :]

    def _counts(self, read: Read) -> Counts:
        return Counts(read.words, read.subwords, len(self.words))

    def _write(self, subwords: Sequence[Subword], read: Read) -> None:
        for subword in subwords:
            self.written.write(subword.token, read.subwords, subword.positions)
        if self.policy.revises and read.ended:
            delays = [self._changed[n] for n, word in enumerate(self.shown) for _ in word]
            self.written = self.written._replace(delays=delays, erased=self._erased)

    def _show(self, words: list[Word], read: Read) -> None:
        """Replace what is shown: the words after the common beginning are erased."""
        kept = common_length([self.shown, words])
        self._erased += self.shown[kept:]
        self._changed = self._changed[:kept] + [read.subwords] * (len(words) - kept)
        self.shown = words


def split(draft: Draft) -> list[Word]:
    """The subwords of a draft as its whole words and the rest, if there is one."""
    rest = tuple(one.token for one in draft.subwords[sum(map(len, draft.words)) :])
    return [*draft.words, rest] if rest else [*draft.words]
