"""Bootstrap intervals, p values and the Pareto front, against sacreBLEU and brute force."""

import random

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from made_up import make_instances
from simulmt.analysis.runs.intervals import (
    SEED,
    Resampled,
    draw_sentences,
    holm,
    mean_of_seeds,
    middle,
    p_value,
    resample,
    sentence_counts,
)
from simulmt.analysis.tables.points import Point, Series, front_points
from simulmt.decoding.instance import Instance
from simulmt.scoring.conventions import CASED, CONVENTIONS
from simulmt.scoring.score import bleu, score


def resampled(log: list[Instance], samples: int = 200, convention: str = "paper") -> Resampled:
    return resample(sentence_counts(log, CONVENTIONS[convention]), samples)


def texts(log: list[Instance]) -> tuple[list[str], list[str]]:
    return [i.prediction for i in log], [i.reference for i in log]


@pytest.mark.parametrize(
    ("mistakes", "convention"), [(0.0, "paper"), (0.4, "ictnlp"), (1.0, "paper")]
)
def test_the_interval_is_around_the_score_and_the_same_again(mistakes, convention):
    log = make_instances(mistakes)
    one, again = (resampled(log, convention=convention) for _ in range(2))
    low, high = one.interval
    expected = bleu(*texts(log), CONVENTIONS[convention].bleu)
    assert one.quality[0] == pytest.approx(expected.value, abs=1e-9)
    assert low <= one.quality[0] <= high
    assert np.array_equal(one.quality, again.quality)


def test_the_interval_is_sacrebleus(monkeypatch):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    log = make_instances(0.2)
    predictions, references = texts(log)
    score = BLEU(force=True).corpus_score(predictions, [references], n_bootstrap=300)
    own = resampled(log, 300)
    low, high = own.interval
    # sacreBLEU counts in float32, whose rounding is 1e-7 of 100
    assert own.quality[1:].mean() == pytest.approx(score._mean, abs=1e-4)
    assert (high - low) / 2 == pytest.approx(score._ci, abs=1e-4)


def test_a_resample_is_scored_as_the_drawn_corpus():
    log = make_instances(0.3, 2)
    log[3] = Instance(3, log[3].source, log[3].reference, "", ())  # in no latency
    own = resampled(log, 40)
    drawn = np.random.default_rng(SEED).choice(len(log), (40, len(log)))  # as sacreBLEU draws
    assert np.array_equal(
        draw_sentences(len(log), 40)[5], np.bincount(drawn[5], minlength=len(log))
    )
    for number, places in enumerate([range(len(log)), *drawn[:10]]):
        corpus = [log[place] for place in places]
        copies = [Instance(i, c.source, c.reference, c.prediction, c.delays)
                  for i, c in enumerate(corpus)]  # fmt: skip
        assert own.quality[number] == pytest.approx(bleu(*texts(corpus), CASED).value, abs=1e-9)
        assert own.dal[number] == pytest.approx(float(score(copies)["paper", "word"]["DAL"]))


def test_p_is_below_5_percent_where_the_interval_excludes_0():
    random = np.random.default_rng(1)
    for samples in (40, 100, 1000):
        for shift in random.uniform(-4, 4, 300):
            differences = random.normal(shift, 1, samples) + random.exponential(0.5, samples)
            p, (low, high) = p_value(differences), middle(differences)
            excluded = low > 0 or high < 0
            # p counts one more than the interval cuts off: the border is one draw wide on each side
            assert excluded or p >= 0.05
            assert not excluded or p <= 2 * (samples // 40 + 1) / (samples + 1)
            assert p == p_value(-differences)
            assert 0 < p <= 1
    assert p_value(np.zeros(100)) == 1


def test_holm_rejects_one_by_one():
    """Holm (1979): from the smallest p on, as long as it's below the level over those left."""
    draw = random.Random(1)
    for _ in range(50):
        values = [round(draw.random() ** 3, 2) for _ in range(draw.randint(0, 12))]
        corrected = holm(values)
        for level in (0.005, 0.055, 0.205):
            rejected = set[int]()
            for left, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
                if values[place] * (len(values) - left) >= level:
                    break
                rejected.add(place)
            assert {i for i, p in enumerate(corrected) if p < level} == rejected
    assert holm([0.01, 0.9]) == pytest.approx([0.02, 0.9])


def test_seeds_are_drawn_with_the_variance_of_their_mean():
    random = np.random.default_rng(1)
    for number in (2, 3, 6):
        bleus = random.normal(30, 1, number)
        flat = {f"{i}": Resampled(np.full(20_001, x), np.full(20_001, 3.0))
                for i, x in enumerate(bleus)}  # fmt: skip
        mean = mean_of_seeds(flat)
        assert mean.quality[0] == pytest.approx(bleus.mean())
        # 20,000 draws: the mean within 5 standard errors, the variance within 5%
        assert mean.quality[1:].mean() == pytest.approx(bleus.mean(), abs=5 * bleus.std() / 141)
        assert mean.quality[1:].var() == pytest.approx(bleus.var(ddof=1) / number, rel=0.05)
        assert np.array_equal(mean.quality, mean_of_seeds(dict(reversed(flat.items()))).quality)
    one = resampled(make_instances(0.3))
    assert np.array_equal(mean_of_seeds({"one": one}).quality, one.quality)


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
