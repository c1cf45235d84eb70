"""Which runs share a line, and what a line is called. The runs are made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_up import evaluate_run, make_decoded_run, make_instances, make_run, make_scores
from reported import OPTIONS, QUICK, VERBFINAL, Page, make_runs, names_drawn, rows, table_rows
from simulmt.analysis.report import report
from simulmt.analysis.runs.found import find_runs
from simulmt.analysis.tables.points import curve_series
from simulmt.errors import UserError
from simulmt.files.instances import write_instances
from simulmt.scoring.score import score


def lines_of(folder: Path) -> dict[str, list[float]]:
    """The latencies of each line."""
    series = curve_series(find_runs(folder).runs, "DAL")
    return {line.name: [point.latency for point in line.points] for line in series}


def make_sweep(folder: Path, weights=(0.1, 0.2), **options) -> None:
    for weight in weights:
        chosen = {key.replace("__", "."): value for key, value in options.items()}
        place = folder / f"{weight}-{len(list(folder.glob('*')))}"
        make_run(place, "mma_il", {"lambda": weight, **chosen}, 30, 5 - weight)


@pytest.mark.parametrize(
    ("key", "values", "names"),
    [
        ("init_from", (None, "runs/a/pre/best.ckpt"), ("null", "best.ckpt")),
        ("init_from", ("runs/a/best.ckpt", "runs/b/best.ckpt"), ("a", "b")),
        ("optim.lr", (0.1, 0.2), ("0.1", "0.2")),
        ("trainer.max_updates", (400, 800), ("400", "800")),
    ],
)
def test_trainings_that_differ_share_no_line(key, values, names, tmp_path):
    for value in values:
        make_sweep(tmp_path, **{key.replace(".", "__"): value})
    short = key.removeprefix("trainer.")
    assert lines_of(tmp_path) == {f"mma_il {short}={name}": [4.8, 4.9] for name in names}


@pytest.mark.parametrize(
    "key",
    ["name", "cache", "logger.kind", "trainer.progress", "trainer.threads", "trainer.devices",
     "trainer.accelerator", "data.root"],
)  # fmt: skip
def test_what_does_not_affect_the_training_separates_no_lines(key, tmp_path):
    for value in (1, 2):
        make_run(tmp_path / f"{value}", "mma_il", {"lambda": 0.1 * value, key: value}, 30, 4)
    assert [*lines_of(tmp_path)] == ["mma_il"]


def test_seeds_from_two_folders_are_one_point(tmp_path):
    for seed in (1, 2):
        options = {"lambda": 0.1, "seed": seed, "data.root": f"place {seed}"}
        make_run(tmp_path / f"{seed}", "mma_il", options, 30, 4)
    (line,) = curve_series(find_runs(tmp_path).runs, "DAL")
    assert [len(point.runs) for point in line.points] == [2]


def test_an_option_whose_name_begins_like_lambda_makes_runs_differ(tmp_path):
    for seed in (1, 2):
        options = {"lambda": 0.1, "seed": seed, "objective.lambda_kl": 0.1 * seed}
        make_run(tmp_path / f"{seed}", "mma_il", options, 30, 4)
    assert [*lines_of(tmp_path)] == [f"mma_il objective.lambda_kl={0.1 * n}" for n in (1, 2)]


def test_a_label_names_the_fewest_options(tmp_path):
    for updates in (400, 800):
        make_sweep(tmp_path, objective__warmup=updates // 2, trainer__max_updates=updates,
                   trainer__validate_every=updates // 4)  # fmt: skip
    assert [*lines_of(tmp_path)] == ["mma_il max_updates=400", "mma_il max_updates=800"]


def test_the_user_chooses_what_separates_lines(tmp_path, drawn):
    for updates in (400, 800):
        make_sweep(tmp_path, optim__lr=0.1 * updates, trainer__max_updates=updates)
    soft = make_run(tmp_path / "soft", "soft", {"trainer.max_updates": 400}, 60, 9)
    evaluate_run(soft, "p", make_scores(40, 4), policy={"name": "hold_n", "n": 2})
    for line, names in {
        "mechanism.name": ["MMA-IL", "offline (ceiling)", "offline + hold-n"],
        "trainer.max_updates": [
            "max_updates=400", "max_updates=400 + hold-n",
            "max_updates=400, whole sentence (ceiling)", "max_updates=800",
        ],
    }.items():  # fmt: skip
        report({"runs": tmp_path, **QUICK, "line": line})
        assert names_drawn(drawn[0])[: len(names)] == names
        drawn.clear()
    both = ["mechanism.name", "optim.lr"]
    report({"runs": tmp_path, **QUICK, "line": both})
    assert names_drawn(drawn[0])[:2] == ["MMA-IL optim.lr=40.0", "MMA-IL optim.lr=80.0"]


@pytest.mark.parametrize("line", ["seed", "mechanism.nothing"])
def test_an_option_that_separates_no_lines_is_refused(line, tmp_path):
    make_sweep(tmp_path, trainer__max_updates=4)
    make_sweep(tmp_path, trainer__max_updates=8)
    with pytest.raises(UserError, match=r"line has .* differ: trainer.max_updates"):
        report({"runs": tmp_path, **QUICK, "line": line})


def test_names_of_the_field_are_for_people_and_keys_for_programs(tmp_path, capsys, drawn):
    for k in (1, 3):
        make_decoded_run(tmp_path / f"{k}", "wait_k", {"mechanism.k": k}, make_instances(0.3, k))
    make_decoded_run(tmp_path / "m", "mma_il", {"lambda": 0.2}, make_instances(0.1, 1))
    report({"runs": tmp_path, **QUICK})
    assert names_drawn(drawn[0])[:2] == ["MMA-IL", "wait-k"]
    names = [row[0] for row in table_rows(capsys.readouterr().out)]
    assert names == ["MMA-IL lambda=0.2", "wait-k k=1", "wait-k k=3"]
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert all(name in page.text for name in names)
    assert "wait_k k=1" not in page.text
    assert {row["mechanism"] for row in rows(tmp_path / "curves.csv")} == {"mma_il", "wait_k"}
    (pair,) = rows(tmp_path / "significance.csv")
    assert (pair["one"], pair["other"]) == ("mma_il", "wait_k")


def test_users_name_lines_themselves(tmp_path, capsys, drawn):
    file = tmp_path / "labels.yaml"
    file.write_text("MMA-IL: ours $x$\nwait-k: STACL\n", encoding="utf-8")
    runs = make_runs(tmp_path / "runs", *VERBFINAL)
    report({"runs": runs, **OPTIONS})
    plain = (runs / "curves.csv").read_bytes()
    usual = drawn.pop(0).axes[0].lines[0].get_color()
    drawn.clear()
    report({"runs": runs, **OPTIONS, "labels": str(file)})
    assert names_drawn(drawn[0])[:3] == ["ours $x$", "offline (ceiling)", "STACL"]
    assert drawn[0].axes[0].lines[0].get_color() == usual
    assert "ours $x$ lambda=0.1" in capsys.readouterr().out
    assert (runs / "curves.csv").read_bytes() == plain


def test_decode_time_policies_are_hollow_and_apart_from_their_ceiling(tmp_path, drawn):
    soft = make_decoded_run(tmp_path / "soft", "soft", {}, make_instances(0.0, 20))
    for n in (1, 2):
        instances = make_instances(0.3 / n, n)
        policy = {"name": "hold_n", "n": n, "layer": None}
        place = evaluate_run(soft, f"n{n}", score(instances), beam=1, policy=policy)
        write_instances(place / "instances.log", instances)
    for k in (1, 3):
        place, instances = tmp_path / f"{k}", make_instances(0.4 / k, k)
        make_decoded_run(place, "wait_k", {"mechanism.k": k}, instances)
    report({"runs": tmp_path, **QUICK, "line": None})
    names = ["offline (ceiling)", "offline + hold-n", "wait-k", "trained policy"]
    assert names_drawn(drawn[0])[:5] == [*names, "decode-time policy"]
    faces = {str(line.get_label()): line.get_markerfacecolor() for line in drawn[0].axes[0].lines}
    assert faces["offline + hold-n"] == "white"
    assert "white" not in (faces["wait-k"], faces["offline (ceiling)"])
    assert {"n=1", "n=2"} <= {t.get_text() for t in drawn[0].axes[0].texts}
    pairs = {(row["one"], row["other"]) for row in rows(tmp_path / "significance.csv")}
    assert pairs == {("soft + hold_n", "wait_k")}
