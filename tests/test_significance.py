"""Lines compared at equal latency, and the committed tables of such comparisons."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from made_up import OWN, evaluate_run, make_decoded_run, make_instances
from reported import QUICK, ROOT, rows
from simulmt.analysis.report import report
from simulmt.analysis.runs.intervals import Resampled, middle
from simulmt.analysis.tables.significance import (
    ResampledLine,
    ResampledPoint,
    compare,
    holm,
    matched_pairs,
    p_value,
    quality_at,
)
from simulmt.decoding.instance import Instance
from simulmt.files.instances import write_instances
from simulmt.files.run_directory import INSTANCES
from simulmt.scoring.score import score

DALS = [2, 3, 4, 5, 6]
SAMPLES = 99
TABLES = sorted((ROOT / "experiments").rglob("*significance.csv"))


def line(name: str, *points: tuple[float, float], noise: float = 0.3) -> ResampledLine:
    """Points (DAL, BLEU) whose resamples vary at random."""
    random, made = np.random.default_rng([*name.encode()]), []
    for dal, bleu in points:
        dals, bleus = random.normal((dal, bleu), (noise, 2 * noise), (1 + SAMPLES, 2)).T
        dals[0], bleus[0] = dal, bleu
        made.append(ResampledPoint([f"{name}-{dal}"], Resampled(bleus, dals)))
    return ResampledLine(name, made)


def at(dal: float) -> np.ndarray:
    return np.full(1 + SAMPLES, float(dal))


def test_bleu_lies_on_the_line_of_each_resample():
    drawn = line("a", (2, 20), (2.2, 29), (4, 30), (6.5, 28))  # the first two change places
    for dal in (1.0, 2.0, 2.1, 3.9, 5, 6.5, 9):
        for number, bleu in enumerate(drawn.quality(at(dal))):
            places = sorted((p.mean.dal[number], p.mean.quality[number]) for p in drawn.points)
            assert bleu == pytest.approx(np.interp(dal, *zip(*places, strict=True)))
    assert drawn.quality(at(2.1))[0] == pytest.approx(24.5)
    for point in drawn.points:  # to the last digit, or two lines with one point would differ
        assert np.array_equal(drawn.quality(point.mean.dal), point.mean.quality)


def test_bleu_at_a_dal_is_never_beyond_the_ends_of_a_line():
    drawn, point = line("a", (2.5, 20), (4, 30), (5.5, 28)), line("b", (3.3, 25))
    found = quality_at([drawn, point], DALS)
    assert [(row["line"], row["DAL"]) for row in found] == [
        ("a", 3),
        ("a", 4),
        ("a", 5),
        ("b", 3.3),
    ]
    assert [row["BLEU"] for row in found[1:3]] == [30, pytest.approx(28 + 2 / 3)]
    assert found[0]["BLEU"] == drawn.quality(at(3))[0]
    assert (found[0]["BLEU_low"], found[0]["BLEU_high"]) == middle(drawn.quality(at(3))[1:])
    assert (found[3]["BLEU_low"], found[3]["BLEU_high"]) == middle(point.points[0].mean.quality[1:])


def test_lines_are_compared_where_both_have_points_on_either_side():
    one, other = line("a", (2.5, 20), (4.5, 30), (5, 31)), line("b", (1, 25), (4, 28), (9, 28))
    found = list(compare(one, other, DALS))
    assert [(row["one"], row["DAL"], row["folders"]) for row in found] == [
        ("b", 3, "b-1; b-4 | a-2.5; a-4.5"),
        ("b", 4, "b-4 | a-2.5; a-4.5"),
        ("a", 5, "a-5 | b-4; b-9"),
    ]
    assert [(row["gap_one"], row["gap_other"]) for row in found] == [(3, 2), (0, 2), (0, 5)]
    assert found == list(compare(other, one, DALS))
    for row in found:
        both = [line.quality(at(row["DAL"])) for line in (one, other)]
        difference = max(both, key=lambda bleu: bleu[0]) - min(both, key=lambda bleu: bleu[0])
        assert row["difference"] == row["BLEU_one"] - row["BLEU_other"] == difference[0] > 0
        assert (row["difference_low"], row["difference_high"]) == middle(difference[1:])
        assert row["p"] == p_value(difference[1:])
        assert (row["seeds_one"], row["seeds_other"]) == (1, 1)


def test_a_single_point_is_compared_at_its_own_dal_in_each_resample():
    one, other = line("a", (3.3, 29)), line("b", (2, 20), (4, 30), (7, 31))
    (row,) = compare(one, other, DALS)
    (point,) = one.points
    difference = point.mean.quality - other.quality(point.mean.dal)
    assert (row["one"], row["DAL"], row["BLEU_other"]) == ("a", 3.3, pytest.approx(26.5))
    assert (row["difference_low"], row["difference_high"]) == middle(difference[1:])
    assert row["folders"] == "a-3.3 | b-2; b-4"
    for dal in (1.9, 7.1):  # beyond the ends
        assert not [*compare(line("a", (dal, 29)), other, DALS)]


def test_of_two_single_points_the_better_one_is_never_the_later_one():
    fast, slow = (3.1, 30.0), (3.2, 28.0)
    (row,) = compare(line("slow", slow), line("fast", fast), DALS)
    assert (row["one"], row["DAL"], row["difference"]) == ("fast", 3.2, 2)
    assert not [*compare(line("slow", (3.2, 31)), line("fast", fast), DALS)]
    (row,) = compare(line("slow", (3.2, 30)), line("fast", fast), DALS)  # equally good
    assert (row["one"], row["difference"]) == ("fast", 0)
    assert len([*compare(line("a", fast), line("b", (3.1, 31)), DALS)]) == 1  # equally late


def make_lines(folder: Path, seeds: int = 1) -> None:
    """wait-k with and without a teacher, at DALs of 2 and 5."""
    for kind, wrong in (("none", 0.3), ("joint", 0.2)):
        for seed in range(1, 1 + seeds):
            for k in (1, 4):
                options = {"mechanism.k": k, "seed": seed, "teacher.kind": kind}
                options |= {} if kind == "none" else {"teacher.lambda_kd": 0.1}
                decoded = make_instances((wrong + 0.04 * seed) / (1 + k), k)
                make_decoded_run(folder / f"{kind}-{seed}-{k}", "wait_k", options, decoded)


def test_a_report_compares_lines_and_corrects_for_their_number(tmp_path, capsys):
    make_lines(tmp_path)
    make_decoded_run(tmp_path / "m", "mma_il", {"lambda": 0.2}, make_instances(0.1, 2))
    report({"runs": tmp_path, **QUICK})
    found = rows(tmp_path / "significance.csv")
    compared = {(*sorted((row["one"], row["other"])), round(float(row["DAL"]), 9)) for row in found}
    both = ("wait_k teacher=joint", "wait_k teacher=none")
    assert compared == {
        *((*both, dal) for dal in (2, 3, 4, 5)), *(("mma_il", kind, 3) for kind in both)
    }  # fmt: skip
    assert [float(row["p_holm"]) for row in found] == holm([float(row["p"]) for row in found])
    assert {(row["seeds_one"], row["seeds_other"]) for row in found} == {("1", "1")}
    said = "p_holm of 6 comparisons cannot be below .05 with resamples=60: give resamples=240, or"
    out = " ".join(capsys.readouterr().out.split())
    assert said in out
    assert "4 of 9 values in matched.csv are interpolated over more than a third" in out
    report({"runs": tmp_path, **QUICK, "compare_at": 2.5, "resamples": 120})
    found = rows(tmp_path / "significance.csv")
    assert sorted(round(float(row["DAL"]), 9) for row in found) == [2.5, 3, 3]
    assert "p_holm" not in capsys.readouterr().out


def test_of_points_at_one_dal_the_best_is_compared(tmp_path):
    decodings = {"greedy": (0.2, 12), "beam": (0.05, 12), "late": (0.1, 12), "early": (0.3, 2)}
    for name, (wrong, k) in decodings.items():
        mechanism = "wait_k" if name in {"early", "late"} else "soft"
        seeds = (1, 2, 3) if mechanism == "wait_k" else (1,)
        for seed in seeds:  # whose mean DAL may differ in the last digit
            options = {"mechanism.k": k, "seed": seed} if mechanism == "wait_k" else {"beam": name}
            place = tmp_path / f"{name}-{seed}"
            make_decoded_run(place, mechanism, options, make_instances(wrong, k))
    report({"runs": tmp_path, **QUICK, "line": "mechanism.name"})
    (row,) = rows(tmp_path / "significance.csv")
    assert (row["one"], row["gap_one"], row["gap_other"]) == ("soft", "0.0", "0.0")
    assert row["folders"] == "beam-1 | late-1; late-2; late-3"


def test_seeds_that_differ_widen_the_interval(tmp_path):
    widths = {}
    for name, seeds in (("one", 1), ("all", 3)):
        make_lines(tmp_path / name, seeds)
        report({"runs": tmp_path / name, **QUICK, "compare_at": 3})
        (row,) = rows(tmp_path / name / "significance.csv")
        assert (row["seeds_one"], row["seeds_other"]) == (f"{seeds}", f"{seeds}")
        folders = row["folders"].replace(" | ", "; ").split("; ")
        assert {*folders} == {path.name for path in (tmp_path / name).glob("*-*-*")}
        assert row["folders"].startswith("joint")
        widths[name] = float(row["difference_high"]) - float(row["difference_low"])
    assert widths["all"] > widths["one"]


@pytest.mark.parametrize("path", TABLES, ids=lambda path: "/".join(path.parts[-3:]))
def test_committed_tables_do_not_contradict_themselves(path):
    with path.open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    assert table
    for row in table:
        if "p" in row:
            p, low, high = (float(row[key]) for key in ("p", "difference_low", "difference_high"))
            excluded = low > 0 or high < 0
            assert excluded or p >= 0.05
            assert not excluded or p < 0.052  # a draw of 1,000 more than the interval cuts off


def test_a_row_has_the_fewest_seeds_of_the_points_around_it() -> None:
    drawn, other = line("a", (2, 20), (4, 30)), line("b", (1, 19), (5, 29))
    first, second = drawn.points
    several = replace(drawn, points=[replace(first, folders=["a", "b"]), second])
    (row,) = compare(several, other, [3])
    assert (row["seeds_one"], row["seeds_other"]) == (1, 1)
    assert quality_at([several], [3])[0]["seeds"] == 1


def test_lines_with_other_references_are_not_tested() -> None:
    def run(folder: str, meant: str) -> SimpleNamespace:
        return SimpleNamespace(folder=folder, log=[Instance(0, "a b", meant, "A", (1,))])

    lines = line("a", (2, 25)), line("b", (3, 20))
    for other, count in (("A B", 1), ("A C", 0)):
        found = matched_pairs([run("a-2", "A B"), run("b-3", other)], lines, [])
        assert len(found) == count


def test_two_decodings_of_the_same_models_draw_the_same_seeds(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        log = make_instances(0.1 * seed, 3)
        options = {"mechanism.k": 3, "seed": seed}
        run = make_decoded_run(tmp_path / f"{seed}", "wait_k", options, log)
        place = evaluate_run(run, "again", score(log, None, OWN), policy={"name": "hold_n", "n": 2})
        write_instances(place / INSTANCES, log)
    report({"runs": tmp_path, **QUICK})
    (row,) = rows(tmp_path / "significance.csv")
    assert (row["difference_low"], row["difference_high"]) == ("0.0", "0.0")
