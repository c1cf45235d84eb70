"""Live sentences one by one and together: words a second, and milliseconds a word, on one thread.

    python benchmarks/together.py [--sessions 1 10 50 200] [--turns 12] [--repeats 3]

Sessions of the tiny Transformer, each at another word of its sentence. In every turn each session
reads a word, alone or all in one pass. Fresh weights, enlarged so that decisions vary; the energy
biases of learned heads are chosen so that a session writes about as much as it reads. An untrained
model finds no end, so a session begins another sentence without finishing the last. The time is
that of the processor.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import cycle

import torch
from frame import configuration, one_thread
from rich.console import Console
from rich.table import Table

from simulmt.attention.schedules import MonotonicHeads
from simulmt.builders import build_mechanism, build_model
from simulmt.data.subwords import Subwords
from simulmt.data.verbfinal import verbfinal
from simulmt.laws.small import vary
from simulmt.live.together import read_together
from simulmt.live.translator import Translator
from simulmt.models.model import Model

MECHANISMS = ("mma_il", "wait_k")
WARM_UP = 8
"""Turns before the time counts, after which sessions are at different words of their sentences."""
SIZE = 1000
"""Subwords of the vocabulary."""
Read = Callable[[Sequence[Translator], Sequence[str]], object]


def one_by_one(translators: Sequence[Translator], words: Sequence[str]) -> None:
    """Let each read for itself."""
    for translator, word in zip(translators, words, strict=True):
        translator.read(word)


WAYS: dict[str, Read] = {"one by one": one_by_one, "together": read_together}


class Sessions:
    """Sessions that read one sentence after another, word by word.

    Args:
        model: in evaluation mode.
        subwords: its vocabulary.
        sources: the sentences.
        count: number of sessions.
    """

    def __init__(self, model: Model, subwords: Subwords, sources: Sequence[str], count: int):
        draw = random.Random(0)
        self.translators = [Translator(model, subwords, torch.device("cpu")) for _ in range(count)]
        endless = cycle(draw.sample(sources, len(sources)))
        self._words = [
            cycle([word for _ in range(9) for word in (*next(endless).split(), None)])
            for _ in range(count)
        ]
        for words in self._words:  # so that their sentences end at different turns
            for _ in range(draw.randrange(WARM_UP)):
                next(words)

    def turn(self, read: Read) -> int:
        """Let each session read a word; return the number of words."""
        words = []
        for translator, own in zip(self.translators, self._words, strict=True):
            word = next(own)
            if word is None:
                translator.reset()
                word = next(own)
            words.append(word)
        read(self.translators, words)
        return len(words)


def written_for_each_read(model: Model, subwords: Subwords, sources: Sequence[str]) -> float:
    """Subwords written for each subword read, before the source has ended."""
    read = written = 0
    for source in sources:
        translator = Translator(model, subwords, torch.device("cpu"))
        translator.read(source)
        read += len(subwords.encode(source))
        written += len(translator.stream.written.tokens)
    return written / read


def a_model(mechanism: str, subwords: Subwords, sources: Sequence[str]) -> Model:
    """Fresh weights; learned heads that write about as much as they read."""
    config = configuration("model=transformer", f"mechanism={mechanism}")
    model = build_model(config["model"], build_mechanism(config["mechanism"]), subwords.vocabulary)
    vary(model)
    schedules = [part for part in model.modules() if isinstance(part, MonotonicHeads)]
    low, high = -20.0, 20.0
    for _ in range(12 if schedules else 0):
        for part in schedules:
            part.energy_bias.data.fill_((low + high) / 2)
        if written_for_each_read(model.eval(), subwords, sources) > 1:
            high = (low + high) / 2
        else:
            low = (low + high) / 2
    return model.eval()


def measure(sessions: Sessions, read: Read, turns: int) -> tuple[float, float]:
    """Words a second, and the median milliseconds of a turn."""
    words, seconds = 0, list[float]()
    for _ in range(turns):
        started = time.process_time()
        words += sessions.turn(read)
        seconds.append(time.process_time() - started)
    return words / sum(seconds), 1000 * statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 10, 50, 200])
    parser.add_argument("--turns", type=int, default=12, help="words that each session reads")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    one_thread()
    split = verbfinal(1, 500, 200, 20).splits["valid"]
    sources, subwords = [*split.sources], Subwords.train(split.sample(), SIZE, "bpe")
    table = Table("mechanism", "sessions", *(f"{way}\nwords/s" for way in WAYS), "times",
                  *(f"{way}\nms a word" for way in WAYS), "ms a turn\ntogether")  # fmt: skip
    for mechanism in MECHANISMS:
        model = a_model(mechanism, subwords, sources[:20])
        for count in given.sessions:
            rates: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(given.repeats):
                for way, read in WAYS.items():
                    sessions = Sessions(model, subwords, sources, count)
                    for _ in range(WARM_UP):
                        sessions.turn(read)
                    rate, turn = measure(sessions, read, given.turns)
                    rates[way].append(rate)
            medians = [statistics.median(rates[way]) for way in WAYS]
            table.add_row(
                mechanism,
                str(count),
                *(f"{rate:.0f}" for rate in medians),
                f"{medians[1] / medians[0]:.1f}",
                *(f"{1000 / rate:.2f}" for rate in medians),
                f"{turn:.1f}",
            )
        written = written_for_each_read(model, subwords, sources[:20])
        Console().print(f"{mechanism} writes {written:.2f} subwords for each one that it reads")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
