"""The panes of a session read words in step; the words of many sessions are read in one batch.

All of this runs in the thread that has the models.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

import torch
from torch.nn.utils.rnn import pad_sequence

from simulmt.decoding.instance import word_delays
from simulmt.latency import average_lagging
from simulmt.live.together import read_together
from simulmt.live.translator import Translator
from simulmt.serve.events import Ended, Ending, InForce, PaneStep, Step, Written
from simulmt.serve.messages import Setting

Build: TypeAlias = Callable[[Setting], Translator]
"""Returns the translator of a setting, for one pane."""
_log = logging.getLogger("simulmt.serve")


class Pane:
    """What one translator has shown of a sentence.

    Args:
        setting: says what the pane shows.
        translator: translates for this pane alone.
    """

    def __init__(self, setting: Setting, translator: Translator) -> None:
        self.setting, self.translator = setting, translator
        self.words = list[str]()
        self.delays = list[int]()
        self.erased = 0

    @property
    def kin(self) -> tuple[int, str]:
        """A key that is equal for panes that are computed, and timed, together."""
        return id(self.translator.model), repr(self.translator.policy)

    def reset(self) -> None:
        """Begin another sentence."""
        self.translator.reset()
        self.words, self.delays, self.erased = [], [], 0

    def follow(self, ended: bool) -> tuple[int, tuple[Written, ...]]:
        """Return how many words stay after the last read, and those that are new."""
        translator = self.translator
        if translator.revises:
            return self._revise(translator.words_written if ended else translator.shown)
        tokens = translator.stream.written.tokens
        source = translator.subwords.source_words(" ".join(translator.words_read))
        kept = len(self.words)
        self.words = [*translator.words_written]
        ends = translator.subwords.word_ends(tokens)[: len(self.words)]
        self.delays = word_delays(translator.stream.written.delays, ends, source)
        new = (
            Written(word, delay, self._heads(end, source))
            for word, delay, end in zip(self.words, self.delays, ends, strict=True)
        )
        return kept, tuple(new)[kept:]

    def _revise(self, words: list[str]) -> tuple[int, tuple[Written, ...]]:
        pairs = zip(self.words, words, strict=False)
        kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        read = len(self.translator.words_read)
        self.erased += len(self.words) - kept
        self.words = words
        self.delays = self.delays[:kept] + [read] * (len(words) - kept)
        return kept, tuple(Written(word, read) for word in words[kept:])

    def _heads(self, end: int, source: Sequence[int]) -> tuple[int, ...]:
        """Return the source word of each head when a target word that ends at `end` was written."""
        if self.translator.model.mechanism.offline:
            return ()
        words = [*source, len(self.translator.words_read) + 1]
        places = self.translator.stream.written.positions[end - 1]
        return tuple(words[min(place, len(words)) - 1] if place > 0 else 0 for place in places)


@dataclass(eq=False)
class Interpretation:
    """The sentences of a session, read by one or more panes.

    Args:
        build: returns the translator of a setting.
        most: the most words of a sentence.
        panes: what reads the sentence.
    """

    build: Build
    most: int
    panes: list[Pane]
    sentence: int = 1
    read: int = 0
    chosen: list[Pane] | None = None

    @classmethod
    def of(cls, settings: Sequence[Setting], build: Build, most: int) -> "Interpretation":
        """Return one whose panes show these settings.

        Raises:
            UserError: as for `Served.translator`.
        """
        return cls(build, most, [Pane(setting, build(setting)) for setting in settings])

    @property
    def full(self) -> bool:
        """Whether the sentence is as long as it may be."""
        return self.read >= self.most or any(pane.translator.full for pane in self.panes)

    @property
    def text(self) -> str:
        """The sentence and its translations so far."""
        source = self.panes[0].translator.words_read
        return " | ".join(" ".join(words) for words in (source, *(p.words for p in self.panes)))

    def choose(self, settings: Sequence[Setting]) -> InForce | None:
        """Take other panes: now between two sentences, else with the next sentence.

        Raises:
            UserError: as for `Served.translator`; the panes then stay.
        """
        self.chosen = [Pane(setting, self.build(setting)) for setting in settings]
        return None if self.read else self.change()

    def change(self) -> InForce | None:
        """Bring the chosen panes in force, if others were chosen."""
        if self.chosen is None:
            return None
        self.panes, self.chosen = self.chosen, None
        return InForce(tuple(pane.setting for pane in self.panes))

    def begin(self) -> None:
        """Begin another sentence."""
        self.sentence, self.read = self.sentence + 1, 0
        for pane in self.panes:
            pane.reset()


@dataclass(frozen=True, eq=False)
class Turn:
    """What an interpretation reads: a word, or why its sentence ends."""

    of: Interpretation
    word: str = ""
    ended: Ending = ""


def advance(turns: Sequence[Turn]) -> list[Step]:
    """Let every interpretation read its word, in as few batches as there are kinds of panes.

    A model that fails costs the sentences of its panes, and nothing else.

    Args:
        turns: at most one for each interpretation; a sentence that ends has at least one word.

    Returns:
        A step for each turn. After the last one of a sentence the caller begins another.
    """
    groups = dict[tuple[int, str], list[tuple[Turn, Pane]]]()
    for turn in turns:
        turn.of.read += not turn.ended
        for pane in turn.of.panes:
            groups.setdefault(pane.kin, []).append((turn, pane))
    times, lost = dict[Pane, float](), set[Interpretation]()
    follows = dict[Pane, tuple[int, tuple[Written, ...]]]()
    for members in groups.values():
        started = time.perf_counter()
        words = [None if turn.ended else turn.word for turn, _ in members]
        try:
            read_together([pane.translator for _, pane in members], words)
            passed = round(1000 * (time.perf_counter() - started), 2)
            for turn, pane in members:
                follows[pane], times[pane] = pane.follow(bool(turn.ended)), passed
        except Exception as error:  # a model's own: the other sentences go on
            lost |= {turn.of for turn, _ in members}
            _log.error("a model failed: %r", error)
    lags = _lags([*follows])
    done = {
        pane: PaneStep(*follow, pane.erased, lags[pane], times[pane])
        for pane, follow in follows.items()
    }
    return [_step(turn, {} if turn.of in lost else done) for turn in turns]


def _step(turn: Turn, done: Mapping[Pane, PaneStep]) -> Step:
    """Return what a turn's panes have done: nothing if one of them failed."""
    panes = tuple(done[pane] for pane in turn.of.panes if pane in done)
    ended: Ended = turn.ended if panes else "failed"
    return Step(turn.of.sentence, turn.of.read, turn.word, panes, ended)


def _lags(panes: Sequence[Pane]) -> dict[Pane, float | None]:
    """Return the average lagging of each pane if its sentence ended here; None without words."""
    lags: dict[Pane, float | None] = dict.fromkeys(panes)
    panes = [pane for pane in panes if pane.delays]
    if panes:
        delays = [torch.tensor(pane.delays, dtype=torch.float32) for pane in panes]
        read = torch.tensor([len(pane.translator.words_read) for pane in panes])
        written = torch.tensor([len(pane.delays) for pane in panes])
        values = average_lagging(pad_sequence(delays, batch_first=True), read, written)
        lags |= dict(zip(panes, [round(lag, 2) for lag in values.tolist()], strict=True))
    return lags
