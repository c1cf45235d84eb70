"""Panes read words, those of many sessions in one batch, in the thread that has the models."""

import logging
import time
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch.nn.utils.rnn import pad_sequence

from simulmt.decoding.policy import common_length
from simulmt.decoding.word_map import WordMap
from simulmt.errors import UserError
from simulmt.latency import average_lagging
from simulmt.live.together import read_together
from simulmt.live.translator import Translator
from simulmt.models.model import Model
from simulmt.serve.messages import PaneStep, Setting, Written
from simulmt.serve.models import contained

_log = logging.getLogger("simulmt.serve")


class Pane:
    """What one translator has shown of a sentence.

    Args:
        setting: what the pane shows.
        translator: translates for this pane alone.

    Attributes:
        failed: True if the model or the policy has failed on the sentence.
    """

    def __init__(self, setting: Setting, translator: Translator) -> None:
        self.setting, self.translator, self.failed = setting, translator, False
        self.words, self.delays = list[str](), list[int]()

    def reset(self) -> None:
        """Begin another sentence."""
        self.translator.reset()
        self.words, self.delays, self.failed = [], [], False

    def follow(self, ended: bool) -> tuple[int, tuple[Written, ...]]:
        """Return how many words stay after the last read, and those that are new."""
        translator = self.translator
        if translator.revises:
            return self._revise(translator.words_written if ended else translator.shown)
        written, read = translator.stream.written, translator.words_read
        source, kept = translator.subwords.source_words(" ".join(read)), len(self.words)
        self.words = [*translator.words_written]
        ends = translator.subwords.words_touched(written.tokens).ends[: len(self.words)]
        self.delays = [source.at(written.delays[end - 1]) for end in ends]
        stops = WordMap((*source, len(read) + 1))  # a head stands at a word, or at EOS
        streams = not translator.model.mechanism.offline
        heads = (written.positions[end - 1] if streams else () for end in ends)
        places = (tuple(map(stops.at, one)) for one in heads)
        return kept, tuple(map(Written, self.words, self.delays, places))[kept:]

    def _revise(self, words: list[str]) -> tuple[int, tuple[Written, ...]]:
        kept, read = common_length([self.words, words]), len(self.translator.words_read)
        self.words = words
        self.delays = self.delays[:kept] + [read] * (len(words) - kept)
        return kept, tuple(Written(word, read) for word in words[kept:])


def read_words(turns: Sequence[tuple[Pane, str]]) -> dict[Pane, PaneStep]:
    """Let panes read, in a batch for each model; a model has one policy.

    A pane that fails reads nothing more until its sentence has ended.

    Args:
        turns: different panes, each with the word that it reads; empty for the end of its sentence.

    Returns:
        What each pane did.
    """
    groups = defaultdict[Model, list[tuple[Pane, str]]](list)
    for pane, word in turns:  # panes of a model are computed, and timed, together
        if not pane.failed:
            groups[pane.translator.model].append((pane, word))
    steps = {pane: PaneStep(len(pane.words), failed=True) for pane, _ in turns}
    for group in groups.values():
        try:
            steps |= contained(_read_together, *zip(*group, strict=True))
        except UserError as error:  # the other sentences go on
            policy, debug = group[0][0].setting.policy, _log.isEnabledFor(logging.DEBUG)
            _log.error("error policy=%s: %s", policy, error, exc_info=debug)
            for pane, _ in group:
                pane.failed = True
    return steps


def warm_up(pane: Pane) -> None:
    """Let a pane read a sentence of one word: the first one of a process takes longest.

    Raises:
        UserError: as for `contained`.
    """
    for word in ("a", ""):
        contained(_read_together, [pane], [word])


def _read_together(panes: Sequence[Pane], words: Sequence[str]) -> dict[Pane, PaneStep]:
    started = time.perf_counter()
    read_together([pane.translator for pane in panes], [word or None for word in words])
    passed = round(1000 * (time.perf_counter() - started), 2)
    shown = [pane.follow(not word) for pane, word in zip(panes, words, strict=True)]
    delays = [torch.tensor(pane.delays, dtype=torch.float32) for pane in panes]
    read = torch.tensor([len(pane.translator.words_read) for pane in panes])
    written = torch.tensor([len(pane.delays) for pane in panes])
    lags = average_lagging(pad_sequence(delays, batch_first=True), read, written).tolist()
    return {
        pane: PaneStep(*new, round(lag, 2) if pane.delays else None, passed)
        for pane, new, lag in zip(panes, shown, lags, strict=True)
    }
