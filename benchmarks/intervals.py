"""The intervals of a report: 60 runs with 1,000 resamples, against sacreBLEU's own bootstrap.

    python benchmarks/intervals.py [--repeats 7]

Each run has written 500 made-up sentences. A report counts the n-grams of each sentence with
sacreBLEU, draws sentences once, and resamples BLEU and DAL by one matrix product for each run.
sacreBLEU's `corpus_score(..., n_bootstrap=1000)` does all that for each run, without DAL.
"""

from __future__ import annotations

import random
from functools import partial

from frame import Result, alone, in_turns, summed_up
from sacrebleu.metrics.bleu import BLEU

from simulmt.analysis.runs.intervals import resample, sentence_counts
from simulmt.decoding.instance import Instance
from simulmt.scoring.conventions import CONVENTIONS

RUNS, SENTENCES, WORDS, RESAMPLES = 60, 500, 13, 1000
MOST = 0.2


def logs(seed: int) -> list[list[Instance]]:
    """The runs, each with other words in a third of the places."""
    draw = random.Random(seed)
    words = [f"word{n}" for n in range(5000)]
    references = [draw.choices(words, k=WORDS) for _ in range(SENTENCES)]

    def instance(index: int, reference: list[str]) -> Instance:
        written = [word if draw.random() < 2 / 3 else draw.choice(words) for word in reference]
        delays = tuple(min(WORDS, 3 + n) for n in range(WORDS))
        text = " ".join(reference)
        return Instance(index, " ".join(words[:WORDS]), text, " ".join(written), delays)

    return [[instance(*pair) for pair in enumerate(references)] for _ in range(RUNS)]


def ours(runs: list[list[Instance]]) -> list[tuple[float, float]]:
    """The interval of each run."""
    convention = CONVENTIONS["paper"]
    return [resample(sentence_counts(log, convention), RESAMPLES).interval for log in runs]


def theirs(runs: list[list[Instance]]) -> None:
    """The same by sacreBLEU."""
    for log in runs:
        texts, references = [i.prediction for i in log], [i.reference for i in log]
        BLEU().corpus_score(texts, [references], n_bootstrap=RESAMPLES)


def one_round(seed: int) -> float:
    """Our time over theirs, on text that nobody has split into tokens yet."""
    runs = logs(seed)
    times = in_turns({"ours": partial(ours, runs), "theirs": partial(theirs, runs)}, 1, warm_up=0)
    return times["ours"][0] / times["theirs"][0]


def measure(repeats: int) -> list[Result]:
    what = f"intervals of {RUNS} runs, {RESAMPLES:,} resamples: times as long as sacreBLEU's"
    return [summed_up("report", what, [*map(one_round, range(repeats))], most=MOST)]


if __name__ == "__main__":
    alone(measure, __doc__)
