"""Reports by the metric of another program, against plain loops. Runs and scores are made up."""

from __future__ import annotations

import random
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from made_up import make_decoded_run, make_instances
from reported import QUICK, Page, rows, table_rows
from simulmt.analysis.report import report
from simulmt.analysis.runs.intervals import SEED
from simulmt.decoding.instance import Instance
from simulmt.errors import UserError
from simulmt.files.instances import read_instances, write_instances
from simulmt.scoring.score import sentence_dals
from simulmt.scoring.scores import Score
from simulmt.scoring.segments import SegmentScores, digest
from simulmt.system.disk import write_json

R, SENTENCES = 60, 60
FAST = QUICK | {"formats": "svg"}
BY_COMET = FAST | {"metric": "comet", "compare_at": [3.5]}


def keep_scores(folder: Path, log: list[Instance], model: str = "m", better: float = 0) -> None:
    """Scores that have little to do with BLEU."""
    draw = random.Random(f"{folder.name}")
    segments = tuple(draw.gauss(0.8 + better, 0.1) for _ in log)
    (folder / "segments").mkdir(exist_ok=True)
    kept = SegmentScores(Score(fmean(segments), f"comet|model:{model}"), digest(log), segments)
    write_json(folder / "segments" / "comet.json", kept)


@pytest.fixture
def runs(tmp_path) -> Path:
    """Two systems, each with two dials and two seeds; the one with lower BLEU has more COMET."""
    for kind, wrong in (("none", 0.4), ("joint", 0.1)):
        for seed in (1, 2):
            for k in (1, 4):
                options = {"mechanism.k": k, "seed": seed, "teacher.kind": kind}
                options |= {} if kind == "none" else {"teacher.lambda_kd": 0.1}
                log = make_instances((wrong + 0.04 * seed) / (1 + k), k)
                run = make_decoded_run(tmp_path / f"{kind}-{seed}-{k}", "wait_k", options, log)
                keep_scores(run, log, better=0.02 * k + 0.05 * (kind == "none"))
    return tmp_path


def resampled(folder: Path) -> list[tuple[float, float]]:
    """COMET and DAL of the test set and of each resample, one sentence after the other."""
    log = read_instances(folder / "instances.log")
    draw = random.Random(folder.name)
    better = 0.02 * int(folder.name[-1]) + 0.05 * folder.name.startswith("none")
    segments, dals = [draw.gauss(0.8 + better, 0.1) for _ in log], sentence_dals(log)
    drawn = np.random.default_rng(SEED).choice(SENTENCES, (R, SENTENCES))
    return [
        (fmean(segments[i] for i in places), fmean(dals[i] for i in places))
        for places in [range(SENTENCES), *drawn.tolist()]
    ]


def mean_of_two(folders: list[Path]) -> list[tuple[float, float]]:
    """The mean on the test set; each resample draws one of the two seeds."""
    names = sorted(folder.name for folder in folders)
    each = [resampled(folders[0].with_name(name)) for name in names]
    random = np.random.default_rng([SEED, *"\n".join(names).encode()])
    chosen = random.integers(2, size=(1, R))[0]
    first = tuple(fmean(seed[0][axis] for seed in each) for axis in (0, 1))
    return [first, *(each[seed][1 + place] for place, seed in enumerate(chosen))]


def middle(values: list[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return ordered[R // 40], ordered[-(R // 40) - 1]


def test_intervals_and_tests_are_those_of_plain_loops(runs):
    report({"runs": runs, **BY_COMET})
    for row in rows(runs / "curves.csv"):
        expected = [comet for comet, _ in resampled(runs / row["folder"])]
        assert float(row["comet"]) == pytest.approx(expected[0])
        found = (float(row["comet_low"]), float(row["comet_high"]))
        assert found == pytest.approx(middle(expected[1:]))
        assert row["comet_signature"] == "comet|model:m"
        assert "BLEU_low" not in row
    lines = {}
    for kind in ("none", "joint"):
        points = [mean_of_two([*runs.glob(f"{kind}-*-{k}")]) for k in (1, 4)]
        lines[kind] = [
            float(np.interp(3.5, *zip(*sorted((dal, comet) for comet, dal in places), strict=True)))
            for places in zip(*points, strict=True)
        ]
    differences = [a - b for a, b in zip(lines["none"], lines["joint"], strict=True)]
    (row,) = rows(runs / "significance.csv")
    assert (row["one"], row["other"]) == ("wait_k teacher=none", "wait_k teacher=joint")
    found = [float(row[key]) for key in ("comet_one", "comet_other", "difference")]
    assert found == pytest.approx([lines["none"][0], lines["joint"][0], differences[0]])
    bounds = (float(row["difference_low"]), float(row["difference_high"]))
    assert bounds == pytest.approx(middle(differences[1:]))
    beyond = min(sum(d <= 0 for d in differences[1:]), sum(d >= 0 for d in differences[1:]))
    assert float(row["p"]) == pytest.approx(2 * (beyond + 1) / (R + 1))
    at = {row["line"]: row for row in rows(runs / "matched.csv")}
    for kind, values in lines.items():
        own = at[f"wait_k teacher={kind}"]
        found = [float(own[key]) for key in ("comet", "comet_low", "comet_high")]
        assert found == pytest.approx([values[0], *middle(values[1:])])


def test_the_metric_is_the_axis_and_bleu_stays_the_default(runs, drawn, capsys):
    report({"runs": runs, **BY_COMET})
    (axes,) = drawn[0].axes
    assert axes.get_ylabel() == "comet"
    heights = {round(y, 9) for line in axes.lines for _, y in line.get_xydata()}
    means = [mean_of_two([*runs.glob(f"{kind}-*-{k}")])[0][0]
             for kind in ("none", "joint") for k in (1, 4)]  # fmt: skip
    assert {round(mean, 9) for mean in means} <= heights
    out = capsys.readouterr().out
    assert "comet|model:m" in out
    comets = {f"{resampled(path)[0][0]:.4f}" for path in runs.glob("*-*-*")}
    assert comets <= {cell for row in table_rows(out) for cell in row}
    page = (runs / "report.html").read_text(encoding="utf-8")
    assert Page(page).open == []
    assert "95% interval of comet" in page
    assert all(comet in page for comet in comets)
    drawn.clear()
    report({"runs": runs, **FAST})
    assert drawn[0].axes[0].get_ylabel() == "BLEU"
    first = rows(runs / "curves.csv")[0]
    assert first["comet"]
    assert first["BLEU_low"]
    assert (row := rows(runs / "significance.csv")[0])["one"] == "wait_k teacher=joint"
    assert "BLEU_one" in row


def test_a_point_is_of_the_seeds_that_are_scored(runs, drawn):
    (runs / "none-1-1" / "segments" / "comet.json").unlink()
    report({"runs": runs, **BY_COMET})
    heights = [y for line in drawn[0].axes[0].lines for _, y in line.get_xydata()]
    assert resampled(runs / "none-2-1")[0][0] in [pytest.approx(y) for y in heights]


def test_a_decoding_without_scores_of_its_text_has_no_cell_and_another_system_may(runs, capsys):
    (runs / "none-1-1" / "segments" / "comet.json").unlink()
    keep_scores(runs / "none-2-1", make_instances(0.3, 1))  # of other text
    theirs = make_instances(0.2, 2)
    (runs / "theirs").mkdir()
    write_instances(runs / "theirs" / "instances.log", theirs)
    keep_scores(runs / "theirs", theirs)
    others = {"Deep NMT": str(runs / "theirs" / "instances.log")}
    report({"runs": runs, **BY_COMET, "others": others})
    out, err = capsys.readouterr()
    assert "2 runs have no comet: not drawn, no interval, no test" in out
    assert "none-2-1/segments/comet.json scores other text" in err
    found = {row["folder"]: row for row in rows(runs / "curves.csv")}
    assert {folder for folder, row in found.items() if not row["comet"]} == {"none-1-1", "none-2-1"}
    deep = found["Deep NMT"]
    assert float(deep["comet_low"]) < float(deep["comet"]) < float(deep["comet_high"])
    assert "Deep NMT" in {row["line"] for row in rows(runs / "matched.csv")}


def test_what_cannot_be_compared_ends_in_one_line(runs):
    for options, message in (
        ({"metric": "bleurt"}, r"metric is 'bleurt'; choose one of BLEU, comet; `simulmt score"),
        ({"metric": "comet", "published": "mma/x"}, "published figures are BLEU"),
    ):
        with pytest.raises(UserError, match=message):
            report({"runs": runs, **FAST, **options})
    keep_scores(runs / "none-1-4", read_instances(runs / "none-1-4" / "instances.log"), "other")
    with pytest.raises(UserError, match=r"comet was scored by .*model:m \(.* and .*other \(none"):
        report({"runs": runs, **FAST})
    assert not (runs / "curves.csv").exists()
