"""How often a report gives p < .05 for two systems that are equal.

    python benchmarks/equal_systems.py [--pairs 2000] [--to benchmarks/equal_systems.csv]

A test set has 1,000 sentences, drawn from the built-in corpus. Two systems write its references
with some wrong words. The share of wrong words varies by sentence and is the same for both systems,
but each system draws its own wrong words. The two are compared like lines of a report: with the
counts of BLEU and DAL, 1,000 resamples, interpolation and seeds.

With `noise`, a model's quality depends on its seed: its shares of wrong words are smaller by this
fraction, larger, or the same. In the table, `sd` is the standard deviation of a system's BLEU,
without the part that both systems share. `below` is the percentage of pairs with p < .05, and
`sacrebleu` is the same percentage with the p value of `sacrebleu.significance` for the same
resamples.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from simulmt.analysis.runs.intervals import (
    SentenceCounts,
    mean_of_seeds,
    middle,
    p_value,
    resample,
    sentence_counts,
)
from simulmt.analysis.tables.significance import ResampledLine, ResampledPoint
from simulmt.data.corpus import Split
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.instance import Instance
from simulmt.scoring.conventions import CONVENTIONS
from simulmt.system.disk import write_rows

SEED = 1
POPULATION, SENTENCES, OUTPUTS, RESAMPLES = 2000, 1000, 6, 1000
DAL = 3.0
LEVEL = 0.05
SHARES = (2, 4)  # of a beta distribution: a third of the words are wrong
NOISE = 0.05


Made: TypeAlias = dict[tuple[int, float], SentenceCounts]
"""The outputs by wait and noise."""


@dataclass(frozen=True)
class Setting:
    """Two equal systems: the waits of their points, their seeds, and how the seeds differ."""

    what: str
    waits: Sequence[int] = (3,)
    seeds: int = 1
    noise: float = 0.0
    part: float = 1.0
    """Fraction of the pairs to simulate, because more seeds take longer."""

    @property
    def factors(self) -> Sequence[float]:
        """What a model's shares of wrong words are multiplied by, equally often."""
        return sorted({1 - self.noise, 1.0, 1 + self.noise})


SETTINGS = (
    Setting("single points"),
    Setting("lines of two points, at a DAL of 3", (2, 4), part=0.5),
    Setting("models that do not differ by seed", seeds=2, part=0.25),
    *(Setting("models that differ by seed", (3,), n, NOISE, part=0.25) for n in (1, 2, 3, 4)),
    Setting("models that differ less by seed", (3,), 3, NOISE / 2, part=0.25),
    Setting("models that differ more by seed", (3,), 3, NOISE * 3, part=0.25),
)


def outputs(text: Split, shares: Sequence[float], wait: int, factor: float) -> SentenceCounts:
    """The counts of several outputs of each sentence, (OUTPUTS, sentences, 12).

    The first words wait for `wait` source words, or one more. A system that waits longer makes
    fewer mistakes.
    """
    drawn = random.Random(f"{SEED} {wait} {factor}")
    words = " ".join(text.targets).split()
    found = []
    for _ in range(OUTPUTS):
        log = []
        for i, (source, target) in enumerate(zip(text.sources, text.targets, strict=True)):
            wrong = factor * shares[i] * (1.3 - 0.1 * wait)
            said = [drawn.choice(words) if drawn.random() < wrong else w for w in target.split()]
            first, length = wait + drawn.randint(0, 1), len(source.split())
            delays = tuple(min(first + j, length) for j in range(len(said)))
            log.append(Instance(i, source, target, " ".join(said), delays))
        found.append(sentence_counts(log, CONVENTIONS["paper"]))
    return np.stack(found)


def line(
    setting: Setting, made: Made, sentences: NDArray[np.int64], draw: Generator
) -> ResampledLine:
    """The line of a system on a test set."""
    points = []
    for wait in setting.waits:
        seeds = {}
        for seed in range(setting.seeds):
            counts = made[wait, draw.choice(setting.factors)]
            chosen = counts[draw.integers(OUTPUTS, size=SENTENCES), sentences]
            seeds[f"{draw.integers(1 << 60)} {seed}"] = resample(chosen, RESAMPLES)
        points.append(ResampledPoint([*seeds], mean_of_seeds(seeds)))
    return ResampledLine("", points)


def sacrebleus(differences: SentenceCounts) -> float:
    """The p value of `sacrebleu.significance` from the difference on the test set and resamples."""
    sizes = np.abs(differences)
    return float(1 + (sizes[1:] - sizes[1:].mean() > sizes[0]).sum()) / len(sizes)


def simulate(setting: Setting, made: Made, pairs: int) -> dict[str, object]:
    """Simulate a setting; its row of the table."""
    draw, dal = np.random.default_rng(SEED), np.full(1 + RESAMPLES, DAL)
    found, what = [], f"{setting.what}, seeds: {setting.seeds}"
    for pair in range(pairs):
        print(f"\r{what}: {pair + 1} of {pairs}", end="", flush=True)
        sentences = draw.integers(POPULATION, size=SENTENCES)
        one, other = (line(setting, made, sentences, draw).quality(dal) for _ in range(2))
        difference = one - other
        low, high = middle(difference[1:])
        p = p_value(difference[1:])
        tests = (p < LEVEL, low > 0 or high < 0, sacrebleus(difference) < LEVEL)
        found.append((one[0], difference[0], *tests))
    (bleu, _, *shares), sd = np.mean(found, axis=0), np.std(found, axis=0)[1] / 2**0.5
    below, excluded, theirs = (round(100 * share, 2) for share in shares)
    print(f": {below}% below {LEVEL}, {theirs}% by sacreBLEU's p")
    return {
        "what": setting.what, "seeds": setting.seeds, "pairs": pairs, "BLEU": round(bleu, 2),
        "sd": round(sd, 2), "below": below, "interval_excludes_0": excluded, "sacrebleu": theirs,
    }  # fmt: skip


def measure(pairs: int) -> list[dict[str, object]]:
    """A row for each setting."""
    text = verbfinal(SEED, train=1, valid=1, test=POPULATION).splits["test"]
    drawn = random.Random(SEED)
    shares = [drawn.betavariate(*SHARES) for _ in text.targets]
    wanted = {(wait, factor) for one in SETTINGS for wait in one.waits for factor in one.factors}
    made = {key: outputs(text, shares, *key) for key in sorted(wanted)}
    return [simulate(one, made, int(pairs * one.part)) for one in SETTINGS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--to", type=Path, default=Path("equal_systems.csv"))
    options = parser.parse_args()
    print(f"written: {write_rows(measure(options.pairs), options.to)}")


if __name__ == "__main__":
    main()
