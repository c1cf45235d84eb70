"""Bootstrap intervals, the paired test and the Pareto front, against sacreBLEU and brute force."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from made_up import make_instances
from simulmt.analysis.intervals import p_value, resample
from simulmt.analysis.points import Point, Series, front_points
from simulmt.scoring.conventions import CASED, Bleu
from simulmt.scoring.score import bleu


def texts(mistakes: float) -> tuple[list[str], list[str]]:
    instances = make_instances(mistakes)
    return [i.prediction for i in instances], [i.reference for i in instances]


@pytest.fixture(autouse=True)
def default_seed(monkeypatch):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)


@pytest.mark.parametrize("mistakes", [0.0, 0.1, 0.4, 1.0])
@pytest.mark.parametrize("kind", [CASED, Bleu("none", lowercase=True)])
def test_the_interval_is_around_the_score_and_the_same_again(mistakes, kind):
    one, again = (resample(*texts(mistakes), 200, kind) for _ in range(2))
    low, high = one.interval
    assert one.bleu == pytest.approx(bleu(*texts(mistakes), kind).value, abs=1e-9)
    assert low <= one.bleu <= high
    assert (low, high) == again.interval
    assert np.array_equal(one.samples, again.samples)


def test_the_interval_is_sacrebleus():
    predictions, references = texts(0.2)
    score = BLEU(force=True).corpus_score(predictions, [references], n_bootstrap=300)
    own = resample(predictions, references, 300)
    low, high = own.interval
    # sacreBLEU counts in float32, whose rounding is 1e-7 of 100
    assert own.samples.mean() == pytest.approx(score._mean, abs=1e-4)
    assert (high - low) / 2 == pytest.approx(score._ci, abs=1e-4)


@pytest.mark.parametrize("mistakes", [0.2, 0.22, 0.5])
def test_the_paired_test_is_sacrebleus_and_symmetric(mistakes):
    (one, references), (other, _) = texts(0.2), texts(mistakes)
    named = [("one", one), ("other", other)]
    test = PairedTest(named, {"BLEU": BLEU(force=True)}, [references], "bs", n_samples=300)
    expected = test()[1]["BLEU"][1].p_value
    first, second = resample(one, references, 300), resample(other, references, 300)
    # a draw on the edge may fall to the other side by sacreBLEU's rounding
    assert p_value(first, second) == pytest.approx(expected, abs=1.5 / 301)
    assert p_value(first, second) == p_value(second, first)
    assert 0 < p_value(first, second) <= 1


def test_more_sentences_are_surer():
    few, many = texts(0.3), [part * 9 for part in texts(0.3)]
    widths = [high - low for low, high in (resample(*t, 200).interval for t in (few, many))]
    assert widths[1] < widths[0] / 2  # about a third


def test_the_pareto_front_is_that_of_brute_force():
    draw = random.Random(1)
    for _ in range(200):
        points = [(draw.randint(0, 6), draw.randint(0, 6)) for _ in range(draw.randint(0, 9))]
        expected = [
            (x, y)
            for x, y in points
            if not any(other != (x, y) and other[0] <= x and other[1] >= y for other in points)
        ]
        lines = [Series("", [Point(*point) for point in points])]
        lines.append(Series("soft", [Point(0, 7)], offline=True))
        lines.append(Series("theirs", [Point(0, 7)], kind="published"))
        assert [point.place for point in front_points(lines)] == sorted(expected)
