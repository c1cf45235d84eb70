"""The reads and writes of a file, replayed by any model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from simulmt.attention import Mechanism
from simulmt.decoding.policy import Counts, Demands, Draft, DraftPolicy, Policy, SubwordPolicy
from simulmt.decoding.recorded import Reads, Recorded, check_text, read_recorded
from simulmt.errors import UserError
from simulmt.options import limited


@dataclass(frozen=True)
class Replay(SubwordPolicy):
    """The reads and writes of one sentence.

    Words that the file lacks are written once the source has ended, and what it has beyond the
    last word is ignored.

    Args:
        reads: the source subwords read before each target word that is written before the end.
        steps: the source subwords read before each target subword, EOS included, for the model's
            own steps; None to commit words of drafts.
    """

    reads: Reads
    steps: Reads | None = None
    beams = True

    def most(self, counts: Counts) -> int:
        """The words that are due."""
        due = sum(read <= counts.subwords_read for read in self.reads)
        return max(due - counts.words_written, 0)


@limited
@dataclass(frozen=True)
class FromFile(DraftPolicy):
    """Target word t is written once as many source words are read as in a file.

    Args:
        file: a log or lists, as of `simulmt.decoding.recorded`, with a sentence for each of the
            text, in its order.
        unit: `word` to commit words of drafts, as policies do; `subword` to force the model's own
            steps, for a log of a model with the same subwords.
    """

    file: Path
    unit: Literal["word", "subword"] = "word"

    @property
    def beams(self) -> bool:  # type: ignore[override]
        """True for drafts."""
        return self.unit == "word"

    def on(self, sources: Sequence[str], words: Callable[[str], Sequence[int]]) -> list[Policy]:
        """The reads and writes of each sentence of a text.

        A word of the text is read with all its subwords, which a model may take for several words.

        Raises:
            UserError: the file is of another text, or lacks subwords.
        """
        check_text(self._recorded, sources, f"policy.file={self.file}")
        pairs = enumerate(zip(self._recorded, sources, strict=True), 1)
        return [self._replay(number, one, source, words) for number, (one, source) in pairs]

    def _replay(
        self, number: int, one: Recorded, source: str, words: Callable[[str], Sequence[int]]
    ) -> Replay:
        if self.unit == "subword":
            if one.reads and not one.subword_delays:
                raise UserError(
                    f"policy.file={self.file}, sentence {number} has no subword_delays: choose "
                    "policy.unit=word, or give the instances.log of a run"
                )
            return Replay((), one.subword_delays)
        early = sum(read < len(source.split()) for read in one.reads)
        reads, own = one.reads[: early if one.before_end is None else one.before_end], words(source)
        return Replay(tuple(sum(word <= read for word in own) for read in reads))

    @cached_property
    def _recorded(self) -> list[Recorded]:
        return read_recorded(self.file)

    def demands(self, mechanism: Mechanism) -> Demands:
        """A misfit, always: the policies of single sentences, from `on`, have to be used."""
        return Demands(
            "it replays the sentences of a text by their number: use evaluate.py, without word_ms, "
            "context, history and sentences, except sentences=lines"
        )

    def commit(self, counts: Counts, drafts: Sequence[Draft]) -> int:
        """No word: each sentence has a `Replay`."""
        return 0
