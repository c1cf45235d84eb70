"""Live sentences one by one and together: words per second, and ms per word, on one thread.

    python benchmarks/together.py [--checkpoint RUN] [--sessions 1 10 50 200] [--turns 12]

Sessions use the tiny Transformer, each at a different word of its sentence. In every turn each
session reads a word, one by one or all in one pass. Without a run on the built-in data, the weights
are untrained, and enlarged so that decisions vary. The energy biases of learned heads are chosen so
that a session writes about as much as it reads, but in long bursts. An untrained model never ends a
sentence, so its sessions begin a new sentence without finishing the previous one. Times are
processor time.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path

import torch
from frame import configuration, one_thread
from rich.console import Console
from rich.table import Table

from simulmt.attention.schedules import MonotonicHeads
from simulmt.data.subwords import Subwords
from simulmt.data.verbfinal import verbfinal
from simulmt.laws.small import vary
from simulmt.live.together import read_together
from simulmt.live.translator import Translator
from simulmt.parts.builders import build_mechanism, build_model

MECHANISMS = ("mma_il", "wait_k")
WARM_UP = 8
"""Turns before timing starts, so that sessions are at different words of their sentences."""
SIZE = 1000
"""Subwords of the vocabulary."""
Read = Callable[[Sequence[Translator], Sequence[str | None]], object]


def one_by_one(translators: Sequence[Translator], words: Sequence[str | None]) -> None:
    """Read a word in each session, one by one."""
    for translator, word in zip(translators, words, strict=True):
        if word is None:
            translator.finish()
        else:
            translator.read(word)


WAYS: dict[str, Read] = {"one by one": one_by_one, "together": read_together}


class Sessions:
    """Sessions that read one sentence after another, word by word.

    Args:
        translator: a translator with the model of all sessions.
        sources: the sentences.
        count: number of sessions.
        finish: True if the end of a sentence counts as a read.
    """

    def __init__(
        self, translator: Translator, sources: Sequence[str], count: int, finish: bool
    ) -> None:
        draw = random.Random(0)
        self.translators = [_another(translator) for _ in range(count)]
        self.finish = finish
        self._words = [
            cycle([w for one in draw.sample(sources, 20) for w in (*one.split(), None)])
            for _ in range(count)
        ]
        for words in self._words:  # so that their sentences end at different turns
            for _ in range(draw.randrange(WARM_UP)):
                next(words)

    def turn(self, read: Read) -> int:
        """Let each session read a word; return the number of words."""
        words = []
        for translator, own in zip(self.translators, self._words, strict=True):
            words.append(next(own))
            if words[-1] is None and not self.finish:
                translator.reset()
                words[-1] = next(own)
        read(self.translators, words)
        for translator, word in zip(self.translators, words, strict=True):
            if word is None:
                translator.reset()
        return len(words)


def _another(translator: Translator) -> Translator:
    return Translator(translator.model, translator.subwords, translator.device)


def written_for_each_read(translator: Translator, sources: Sequence[str]) -> float:
    """Subwords written for each subword read, before the source has ended."""
    read = written = 0
    for source in sources:
        translator.reset()
        translator.read(source)
        read += len(translator.subwords.encode(source))
        written += len(translator.stream.written.tokens)
    return written / read


def fresh(mechanism: str, sources: Sequence[str]) -> Translator:
    """An untrained model, whose learned heads write about as much as they read."""
    subwords = Subwords.train(sources, SIZE, "bpe")
    config = configuration("model=transformer", f"mechanism={mechanism}")
    model = build_model(config["model"], build_mechanism(config["mechanism"]), subwords.vocabulary)
    vary(model.eval())
    translator = Translator(model, subwords, torch.device("cpu"))
    schedules = [part for part in model.modules() if isinstance(part, MonotonicHeads)]
    low, high = -20.0, 20.0
    for _ in range(12 if schedules else 0):
        bias = (low + high) / 2
        for part in schedules:
            part.energy_bias.data.fill_(bias)
        many = written_for_each_read(translator, sources[:20]) > 1
        low, high = (low, bias) if many else (bias, high)
    return translator


def measure(sessions: Sessions, read: Read, turns: int) -> tuple[float, float]:
    """Words per second, and the median milliseconds of a turn."""
    for _ in range(WARM_UP):
        sessions.turn(read)
    words, seconds = 0, list[float]()
    for _ in range(turns):
        started = time.process_time()
        words += sessions.turn(read)
        seconds.append(time.process_time() - started)
    return words / sum(seconds), 1000 * statistics.median(seconds)


def row(make: Callable[[], Sessions], turns: int, repeats: int) -> list[str]:
    """Words per second and milliseconds per word in both ways, in turns."""
    figures: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for _ in range(repeats):
        for way, read in WAYS.items():
            figures[way].append(measure(make(), read, turns))
    alone, joined = (statistics.median(rate for rate, _ in figures[way]) for way in WAYS)
    turn = statistics.median(ms for _, ms in figures["together"])
    times, ms = f"{joined / alone:.1f}", [f"{1000 / rate:.2f}" for rate in (alone, joined)]
    return [f"{alone:.0f}", f"{joined:.0f}", times, *ms, f"{turn:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, help="a run on verbfinal")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 10, 50, 200])
    parser.add_argument("--turns", type=int, default=12, help="words that each session reads")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    one_thread()
    sources = [*verbfinal(1, 1000, 200, 20).splits["train"].sources]
    if given.checkpoint:
        models = {given.checkpoint.name: Translator.load(given.checkpoint, "cpu")}
    else:
        models = {name: fresh(name, sources) for name in MECHANISMS}
    table = Table("model", "sessions", *(f"{way}\nwords/s" for way in WAYS), "times",
                  *(f"{way}\nms a word" for way in WAYS), "together\nms a turn")  # fmt: skip
    for name, translator in models.items():
        written = written_for_each_read(translator, sources[:20])
        print(f"{name} writes {written:.2f} subwords for each that it reads")
        for count in given.sessions:
            make = partial(Sessions, translator, sources, count, bool(given.checkpoint))
            table.add_row(name, str(count), *row(make, given.turns, given.repeats))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
