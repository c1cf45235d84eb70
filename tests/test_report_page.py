"""The page of a report: whole, safe, in one file; and the files beside it. The runs are made up."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path

import pytest

from made_up import evaluate_run, make_decoded_run, make_instances, make_run, make_scores
from reported import QUICK, Page, rows
from simulmt.analysis.report import report
from simulmt.analysis.runs.found import find_runs
from simulmt.analysis.tables.points import curve_series, offline_bleu
from simulmt.files.instances import to_json


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Two mechanisms of equal latency, one of them better, and the ceiling."""
    folder = tmp_path_factory.mktemp("sweep")
    make_decoded_run(folder / "soft", "soft", {}, make_instances(0.0, 20))
    for k in (1, 3):
        place, options = folder / f"wait_k-{k}", {"mechanism.k": k}
        make_decoded_run(place, "wait_k", options, make_instances(0.3 / k, k - 1))
    make_decoded_run(folder / "mma_il", "mma_il", {"lambda": 0.2}, make_instances(0.05, 0))
    return folder


@pytest.fixture
def sweep(made, tmp_path) -> Path:
    """A copy of these runs, to report on."""
    return Path(shutil.copytree(made, tmp_path / "runs"))


@pytest.fixture(scope="module")
def whole(made, tmp_path_factory) -> Path:
    """A report on them."""
    folder = tmp_path_factory.mktemp("report")
    report({"runs": made, **QUICK, "to": folder})
    return folder


def test_the_page_is_whole_and_asks_for_nothing(whole, made):
    text = (whole / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len({*ids})
    links = {v for _, name, v in page.attributes if name in ("href", "xlink:href")}
    assert {link[1:] for link in links} <= {*ids}
    assert {f"#run-{i}" for i in range(4)} <= links
    assert not [name for _, name, _ in page.attributes if name in ("src", "srcset", "action")]
    assert "@import" not in text
    shown = {re.sub(r"http://www.w3.org/\S+?(?=\")", "", found) for found in
             re.findall(r"https?:[^\s<>]*", text)}  # fmt: skip
    assert {link.strip('"') for link in shown} == {""}  # nothing but the names of XML
    for name in ("offline", "wait-k k=1", "wait-k k=3", "MMA-IL lambda=0.2"):
        assert name in page.text


def test_a_page_shows_text_as_it_is(tmp_path):
    evil = "<script>alert(1)</script>&{{body}}\"'"
    instances = make_instances(0.1)
    words = [evil, *instances[0].prediction.split()[1:]]
    source = [evil, *instances[0].source.split()[1:]]
    instances[0] = dataclasses.replace(
        instances[0], prediction=" ".join(words), source=" ".join([*source] * 2)
    )
    instances = [instances[0]]
    make_decoded_run(tmp_path / "a<b>&", "mma_il", {"mechanism.note": evil}, instances)
    make_decoded_run(tmp_path / "b", "mma_il", {"mechanism.note": "$x$"}, instances)
    report({"runs": tmp_path, **QUICK})
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert "<script>alert" not in text
    assert page.text.count(evil) >= 3
    assert "a<b>&" in page.text
    assert sum(name == "onclick" for _, name, _ in page.attributes) == 0


def test_csv_has_interval_ceiling_and_front(whole):
    found = {row["folder"]: row for row in rows(whole / "curves.csv")}
    for row in found.values():
        assert float(row["BLEU_low"]) <= float(row["BLEU"]) <= float(row["BLEU_high"])
        assert row["resampling"] == "bs:60|seed:12345"
        assert float(row["offline_BLEU"]) == pytest.approx(100)
    front = {name for name, row in found.items() if row["front_DAL"] == "True"}
    assert front == {"mma_il"}  # the ceiling is none of it; wait_k-3 is slower, and worse


def test_pairs_are_of_other_lines_and_the_same_sentences(sweep):
    report({"runs": sweep, **QUICK})
    (row,) = rows(sweep / "significance.csv")
    assert row["folders"] == "mma_il | wait_k-1"  # the better first; the ceiling is later
    assert float(row["p"]) == pytest.approx(2 / 61)  # none of the draws
    other = make_instances(0.05, 0, seed=2)
    make_decoded_run(sweep / "other", "milk", {"lambda": 0.2}, other)
    report({"runs": sweep, **QUICK})
    assert len(rows(sweep / "significance.csv")) == 1  # not on other sentences


def test_seeds_are_one_point_with_whiskers(tmp_path):
    for seed, (bleu, dal) in enumerate([(30, 4.0), (32, 4.2), (34, 4.4)]):
        make_run(tmp_path / f"{seed}", "wait_k", {"mechanism.k": 3, "seed": seed}, bleu, dal)
    make_run(tmp_path / "k1", "wait_k", {"mechanism.k": 1, "seed": 0}, 20, 2.0)
    (line,) = curve_series(find_runs(tmp_path).runs, "DAL")
    one, three = line.points
    assert (one.spread, len(one.runs)) == ((0, 0), 1)
    assert (three.latency, three.quality) == pytest.approx((4.2, 32))
    assert three.spread == pytest.approx((0.2, 2))
    assert len(three.runs) == 3
    report({"runs": tmp_path, **QUICK})
    assert {row["front_DAL"] for row in rows(tmp_path / "curves.csv")} == {"True"}


def test_the_ceiling_is_of_the_same_model(tmp_path):
    for dim, bleu in ((128, 30), (256, 40)):
        options = {"model.dim": dim}
        make_run(tmp_path / f"soft-{dim}", "soft", options, bleu, 9)
        make_run(tmp_path / f"milk-{dim}", "milk", options, 20, 4)
    make_run(tmp_path / "milk-512", "milk", {"model.dim": 512}, 20, 4)
    runs = find_runs(tmp_path).runs
    found = {run.folder: offline_bleu(run, runs) for run in runs}
    assert (found["milk-128"], found["milk-256"], found["milk-512"]) == (30, 40, None)


def test_runs_that_cannot_be_used_are_listed_with_the_reason(sweep, capsys):
    places = {name: sweep / name for name in ("log", "other", "short", "begun")}
    for place in places.values():
        make_decoded_run(place, "milk", {"lambda": 0.2}, make_instances(0.1))
    (places["log"] / "instances.log").write_text("{")
    other, short = make_instances(0.5), make_instances(0.1)[:-1]
    for name, instances in (("other", other), ("short", short)):
        lines = "".join(to_json(one) + "\n" for one in instances)
        (places[name] / "instances.log").write_text(lines, encoding="utf-8")
    (places["begun"] / "test_scores.json").unlink()
    (places["begun"] / "metrics.csv").write_text("step,train/loss\n19,6.0\n39,5.0\n")
    report({"runs": sweep, **QUICK})
    out = capsys.readouterr().out
    reasons = {"log": "line 1", "other": "not from the same decoding", "short": "59 of 60",
               "begun": "update 40"}  # fmt: skip
    left_out = [line for line in out.splitlines() if line.startswith("left out: ")]
    assert len(left_out) == 4
    for name, reason in reasons.items():
        (line,) = [line for line in left_out if f"{places[name]} (" in line]
        assert reason in line
    assert len(rows(sweep / "curves.csv")) == 4
    page = Page((sweep / "report.html").read_text(encoding="utf-8"))
    assert all(reason in page.text for reason in reasons.values())


def test_a_convention_has_its_own_interval(tmp_path):
    convention = "ictnlp"
    instances = make_instances(0.2)
    pieces = [
        dataclasses.replace(i, subword_delays=i.delays, subword_source_length=i.source_length,
                            subword_reference_length=i.reference_length)
        for i in instances
    ]  # fmt: skip
    make_decoded_run(tmp_path / "a", "milk", {"lambda": 0.2}, pieces)
    report({"runs": tmp_path, **QUICK, "convention": convention})
    (row,) = rows(tmp_path / "curves.csv")
    low, figure, high = (
        float(row[f"{name}_{convention}"]) for name in ("BLEU_low", "BLEU", "BLEU_high")
    )
    assert low <= figure <= high


def test_the_ceiling_may_read_in_both_directions_and_is_no_further_decoding(tmp_path: Path) -> None:
    options = {"model.encoder": "bidirectional", "data.batch_tokens": 4096}
    soft = make_run(tmp_path / "soft", "soft", options, 40, 9)
    evaluate_run(soft, "beam4", make_scores(44, 9), beam=4)
    options = {"model.encoder": "causal", "data.batch_tokens": 2048}
    make_run(tmp_path / "milk", "milk", options | {"model.average_embedding": True}, 20, 4)
    runs = find_runs(tmp_path).runs
    assert {run.folder: offline_bleu(run, runs) for run in runs}["milk"] == 40
