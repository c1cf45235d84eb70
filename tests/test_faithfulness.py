"""Faithfulness of policies: by hand, and against plain loops on links that are exact."""

from __future__ import annotations

from dataclasses import replace

import pytest

from made_up import make_run
from simulmt.alignment.links import by_target, known_links
from simulmt.analysis.runs.found import find_runs
from simulmt.analysis.tables.points import curve_rows
from simulmt.data.corpus import oracle_delays
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.writing import Writing
from simulmt.files.run_directory import SCORES
from simulmt.scoring.faithfulness import (
    KS,
    Counted,
    anticipation_rate,
    faithfulness,
    hallucination_rate,
    necessity,
    sufficiency,
)
from simulmt.scoring.scores import Scores
from simulmt.system.disk import read_record, write_json

GRAMMAR = Counted("data")
SPLIT = verbfinal(3, 0, 0, 200).splits["test"]


def wait_k(k: int) -> list[list[int]]:
    lengths = [len(source.split()) for source in SPLIT.sources]
    targets = [len(target.split()) for target in SPLIT.targets]
    return [[min(k + t, n) for t in range(m)] for n, m in zip(lengths, targets, strict=True)]


def test_by_hand():
    linked, delays = [[(2,), (), (1, 4)], [(1,)]], [[1, 2, 3], [2]]
    # the words that wait-k would guess: word 1 needs 2 > 0 + k; word 3 needs 4 > 2 + k
    rates = [anticipation_rate(linked, k, GRAMMAR).value for k in (1, 2, 3)]
    assert rates == [50, 0, 0]
    assert hallucination_rate(linked, GRAMMAR).value == 25
    last, first = GRAMMAR, Counted("data", several="min")
    assert sufficiency(linked, delays, last).value == pytest.approx(100 / 3)  # a division
    assert sufficiency(linked, delays, first).value == pytest.approx(200 / 3)
    assert necessity(linked, delays, last).value == 50  # 1 of 2
    assert necessity(linked, delays, first).value == pytest.approx(100 * (1 / 3 + 1 / 2) / 2)


def test_nothing_to_count_has_no_figure():
    assert [score.value for score in faithfulness([], [], GRAMMAR).values()] == [None] * 3
    unlinked = faithfulness([[(), ()]], [[1, 1]], GRAMMAR)
    assert [score.value for score in unlinked.values()] == [None, None, 100]
    assert necessity([[(3,)]], [[1]], GRAMMAR).value is None  # no word was sufficient
    assert anticipation_rate([[]], 1, GRAMMAR).value is None


def test_a_signature_says_which_links_count_and_how():
    counted = Counted("eflomal", "sure", "min", "reference")
    characters = replace(counted, writing=Writing(target=True))
    assert "|u:char|src:word|" in characters.mean("SUF", [1.0]).signature
    figures = {
        "SUF": sufficiency([], [], counted),
        "NEC": necessity([], [], counted),
        "HR": hallucination_rate([], counted),
        "AR3": anticipation_rate([], 3, counted),
    }
    for name, score in figures.items():
        several = "m:min|" if name in {"SUF", "NEC"} else ""
        expected = f"{name}|a:eflomal|l:sure|{several}of:reference|u:word|v:"
        assert score.signature.startswith(expected)


def test_the_oracle_is_sufficient_and_wait_1_as_a_plain_loop_counts():
    for delays in ([*map(oracle_delays, SPLIT.needs)], wait_k(1), wait_k(3)):
        read, shares, words = 0, [], 0
        for sentence, own in zip(SPLIT.links, delays, strict=True):
            for t in range(len(sentence)):
                if len(sentence[t]) == 0:
                    continue
                words += 1
                last = 0
                for position in sentence[t]:
                    last = max(last, position)
                if last <= own[t]:
                    read += 1
                    shares.append(last / own[t])
        found = faithfulness(SPLIT.links, delays, GRAMMAR)
        assert found["sufficiency"].value == pytest.approx(100 * read / words, rel=1e-12)  # sums
        assert found["necessity"].value == pytest.approx(100 * sum(shares) / read, rel=1e-12)
    oracle = [*map(oracle_delays, SPLIT.needs)]
    assert sufficiency(SPLIT.links, oracle, GRAMMAR).value == 100
    assert sufficiency(SPLIT.links, wait_k(1), GRAMMAR).value < 100


@pytest.mark.parametrize("k", KS)
def test_wait_k_is_insufficient_for_the_words_that_k_anticipates(k):
    """Both count over the same words, since each word of the grammar has a link."""
    linked = [by_target(known_links(own).possible, len(own)) for own in SPLIT.links]
    insufficient = 100 - sufficiency(linked, wait_k(k), GRAMMAR).value
    assert hallucination_rate(linked, GRAMMAR).value == 0
    assert anticipation_rate(linked, k, GRAMMAR).value == pytest.approx(insufficient, abs=1e-9)


def test_a_report_has_the_figures_of_the_runs_that_have_them(tmp_path):
    for name, k in (("a", 1), ("b", 3)):
        make_run(tmp_path / name, "wait_k", {"mechanism.k": k}, 30, k)
    assert not {"sufficiency"} & curve_rows(find_runs(tmp_path).runs, ["DAL"])[0].keys()
    scores = read_record(tmp_path / "a" / SCORES, Scores)
    figures = faithfulness(SPLIT.links, wait_k(1), GRAMMAR)
    write_json(tmp_path / "a" / SCORES, replace(scores, faithfulness=figures))
    rows = {row["folder"]: row for row in curve_rows(find_runs(tmp_path).runs, ["DAL"])}
    assert rows["a"]["sufficiency"] == figures["sufficiency"].value
    assert rows["b"]["sufficiency"] is None
