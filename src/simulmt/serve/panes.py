"""Panes read words, those of many sessions in one batch, in the thread that has the models."""

import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import torch
from torch.nn.utils.rnn import pad_sequence

from simulmt.data.text import normalise
from simulmt.decoding.policy import common_length
from simulmt.decoding.word_map import WordMap
from simulmt.errors import UserError
from simulmt.latency import average_lagging
from simulmt.live.together import advance
from simulmt.live.translator import Translator
from simulmt.models.model import Model
from simulmt.serve.messages import PaneStep, Setting, Written
from simulmt.serve.models import contained
from simulmt.serve.stream_pane import StreamPane

_log = logging.getLogger("simulmt.serve")


class SentencePane:
    """What one translator has shown of the open sentence, which the client ends.

    Args:
        setting: what the pane shows.
        translator: translates for this pane alone.

    Attributes:
        source: The source words that were read.
        words: The target words that are shown.
        delays: How many of the source words had been read when each target word was written.
        ended: See `StreamPane`.
        failed: True if the pane reads no more of the sentence, as the model or the policy failed.
    """

    ended: Sequence[tuple[int, str, str]] = ()

    def __init__(self, setting: Setting, translator: Translator) -> None:
        self.setting, self.translator = setting, translator
        self.reset()

    def reset(self) -> None:
        """Begin another sentence."""
        self.translator.reset()
        self.source, self.words, self.delays = list[str](), list[str](), list[int]()
        self.failed = False

    def ready(self) -> Translator:
        """Return the translator, which can read a word."""
        return self.translator

    def follow(self, ended: bool) -> PaneStep:
        """Return how many words stay after the last read, and those that are new."""
        translator = self.translator
        translator.decided()
        if translator.revises:
            return self._revise(translator.words_written if ended else translator.shown)
        written, read = translator.stream.written, translator.words_read
        source, kept = translator.subwords.source_words(" ".join(read)), len(self.words)
        self.words = [*translator.words_written]
        ends = translator.subwords.target_words(written.tokens).ends[: len(self.words)]
        self.delays = [source.at(written.delays[end - 1]) for end in ends]
        stops = WordMap((*source, len(read) + 1))  # a head stands at a word, or at EOS
        streams = not translator.model.mechanism.offline
        heads = (written.positions[end - 1] if streams else () for end in ends[kept:])
        places = (tuple(map(stops.at, one)) for one in heads)
        return PaneStep(kept, tuple(map(Written, self.words[kept:], self.delays[kept:], places)))

    def _revise(self, words: list[str]) -> PaneStep:
        kept, read = common_length([self.words, words]), len(self.translator.words_read)
        self.words = words
        self.delays = self.delays[:kept] + [read] * (len(words) - kept)
        return PaneStep(kept, tuple(Written(word, read) for word in words[kept:]))

    def fail(self) -> PaneStep:
        """Skip the word, and the rest of the sentence."""
        self.failed = True
        return PaneStep(len(self.words), failed=True)


Pane: TypeAlias = SentencePane | StreamPane


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
        pane.source += [normalise(word)] if word else []
        if not pane.failed:
            groups[pane.translator.model].append((pane, word))
    steps = dict[Pane, PaneStep]()
    for group in groups.values():
        try:
            steps |= contained(_read_together, *zip(*group, strict=True))
        except UserError as error:  # the other sentences go on
            policy, debug = group[0][0].setting.policy, _log.isEnabledFor(logging.DEBUG)
            _log.error("error policy=%s: %s", policy, error, exc_info=debug)
    return {pane: steps.get(pane) or pane.fail() for pane, _ in turns}


def warm_up(pane: Pane) -> None:
    """Let a pane read a sentence of one word: the first one of a process takes longest.

    Raises:
        UserError: as for `contained`.
    """
    pane.source.append("a")
    for word in ("a", ""):
        contained(_read_together, [pane], [word])


def _read_together(panes: Sequence[Pane], words: Sequence[str]) -> dict[Pane, PaneStep]:
    started = time.perf_counter()
    advance([pane.ready() for pane in panes], [word or None for word in words])
    passed = round(1000 * (time.perf_counter() - started), 2)
    steps = [pane.follow(not word) for pane, word in zip(panes, words, strict=True)]
    delays = [torch.tensor(pane.delays, dtype=torch.float32) for pane in panes]
    read = torch.tensor([len(pane.source) for pane in panes])
    written = torch.tensor([len(pane.delays) for pane in panes])
    lags = average_lagging(pad_sequence(delays, batch_first=True), read, written).tolist()
    return {
        pane: replace(step, lag=round(lag, 2) if pane.delays else None, ms=passed)
        for pane, step, lag in zip(panes, steps, lags, strict=True)
    }
