"""Reports on exported models, which have no training but evaluations."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from reported import QUICK, rows
from simulmt.analysis.report import report
from simulmt.analysis.runs.found import find_runs
from simulmt.data.verbfinal import verbfinal
from simulmt.errors import UserError
from simulmt.programs.analyse import analyse
from simulmt.programs.evaluate import evaluate
from simulmt.programs.export import export
from simulmt.scoring.scores import Scores
from simulmt.system.disk import read_record, write_json
from small_runs import LONGER, configuration

pytestmark = pytest.mark.usefixtures("no_pictures")


def scored(checkpoint: Path, text: Path, *overrides: str) -> None:
    files = [f"source={text}.de", f"target={text}.en", "device=cpu"]
    evaluate(configuration("evaluate", f"checkpoint={checkpoint}", *files, *overrides))


def copied(place: Path, to: Path) -> Path:
    """The model with its evaluations on news."""
    return Path(shutil.copytree(place / "model", to, ignore=shutil.ignore_patterns("other*")))


@pytest.fixture(scope="module")
def place(trained_once, tmp_path_factory) -> Path:
    """A folder with an exported model, `model`, that was evaluated on news, and the news."""
    folder = tmp_path_factory.mktemp("exported")
    split = verbfinal(1, 300, 9, 11).splits["test"]
    for language, lines in (("de", split.sources), ("en", split.targets)):
        for name, count in (("news", 9), ("other", 5)):
            text = "".join(f"{line}\n" for line in lines[:count])
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8")
    run = trained_once(*LONGER, "mechanism=soft", "model.encoder=bidirectional")
    export(configuration("export", f"checkpoint={run}", f"to={folder / 'model'}"))
    scored(folder / "model", folder / "news")
    for k in (1, 3):
        scored(folder / "model", folder / "news", "policy=wait_k", f"policy.k={k}")
    return folder


def test_an_exported_model_and_its_policies_are_a_report(place, tmp_path):
    report({**QUICK, "runs": place / "model", "to": str(tmp_path)})
    table = rows(tmp_path / "curves.csv")
    assert [(row["policy"], row["decoding"]) for row in table] == [
        ("", ""), ("wait_k", "k=1"), ("wait_k", "k=3"),
    ]  # fmt: skip
    delays = [float(row["DAL_word"]) for row in table]
    assert delays[1] < delays[2] < delays[0]
    assert {row["data"] for row in table} == {"verbfinal"}
    assert {(row["parameters"], row["lambda"]) for row in table} == {("", "0.0")}


def test_the_attention_of_an_exported_model_and_not_of_its_decodings(place, tmp_path):
    model = copied(place, tmp_path / "model")
    shutil.rmtree(model / "evaluation")
    evaluate(configuration("evaluate", f"checkpoint={model}", "device=cpu"))
    wait_k = ["policy=wait_k", "policy.k=3", "device=cpu"]
    evaluate(configuration("evaluate", f"checkpoint={model}", *wait_k))
    chosen = ["study=aer", f"runs={model}", "decodings=true", "device=cpu"]
    analyse(configuration("analyse", *chosen))
    table = rows(model / "analysis" / "aer.csv")
    assert {row["folder"] for row in table} == {"./evaluation/test"}
    assert [one.is_decoding for one in find_runs(model).runs] == [False, True]
    assert [one.is_decoding for one in find_runs(model, decodings=False).runs] == [False]
    shutil.rmtree(model / "evaluation" / "test")
    with pytest.raises(UserError, match="no evaluation by the model's own decision"):
        analyse(configuration("analyse", *chosen))


def test_policies_alone_are_a_report(place, tmp_path):
    model = copied(place, tmp_path / "model")
    shutil.rmtree(model / "evaluation" / "news")
    report({**QUICK, "runs": model})
    assert [row["decoding"] for row in rows(model / "curves.csv")] == ["k=1", "k=3"]
    assert not (model / "cost.csv").exists()
    shutil.rmtree(model / "evaluation")
    with pytest.raises(UserError, match=f"runs={model}: not evaluated yet: run `simulmt evaluate"):
        report({**QUICK, "runs": model})


def test_an_evaluation_belongs_to_the_folder_that_holds_it(place, tmp_path):
    """Whatever the folder was called when it was evaluated."""
    model = copied(place, tmp_path / "renamed.v2")
    scored(model, place / "news", "policy=wait_k", "policy.k=5")
    scored(model, place / "news")  # again, in the place of the earlier one
    report({**QUICK, "runs": model})
    table = rows(model / "curves.csv")
    assert [row["decoding"] for row in table] == ["", "k=1", "k=3", "k=5"]
    first = model / "evaluation" / "news"
    old = read_record(first / "scores.json", Scores)
    renamed = replace(old, decoding=replace(old.decoding, checkpoint="another"))
    write_json(first / "scores.json", renamed)
    assert len(find_runs(model).runs) == 4


def test_a_stopwatch_does_not_hide_the_others(place, tmp_path):
    model = copied(place, tmp_path / "model")
    scored(model, place / "news", "word_ms=300", "text=news")
    (model / "evaluation" / "news-word_ms300").rename(model / "evaluation" / "a")  # found first
    assert len(find_runs(model).runs) == 3


def test_one_of_several_texts_has_to_be_named(place, tmp_path):
    scored(place / "model", place / "other")
    with pytest.raises(UserError, match=r"^runs=.*model: evaluated on news, other: choose with"):
        report({**QUICK, "runs": place / "model", "to": str(tmp_path)})
    report({**QUICK, "runs": place / "model", "test": "other", "to": str(tmp_path)})
    assert len(rows(tmp_path / "curves.csv")) == 1
    assert "on other, 5 test sentences" in (tmp_path / "report.html").read_text(encoding="utf-8")
    with pytest.raises(UserError, match="evaluated on news, other: choose with `report test=NAME`"):
        report({**QUICK, "runs": place / "model", "test": "third"})


def test_a_folder_for_transformers_has_to_be_imported(tmp_path):
    write_json(tmp_path / "config.json", {"model_type": "marian"})
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(UserError, match=r"in the format of transformers: `simulmt import`"):
        report({**QUICK, "runs": tmp_path, "to": str(tmp_path)})


def test_an_exported_model_and_its_run_have_one_test_set(place, trained_once, tmp_path):
    model, run = copied(place, tmp_path / "model"), tmp_path / "run"
    shutil.copytree(trained_once(*LONGER, "mechanism=soft", "model.encoder=bidirectional"), run)
    for trained in (model, run):
        evaluate(configuration("evaluate", f"checkpoint={trained}"))
    found = find_runs(tmp_path, test="test").runs
    assert [one.folder.split("/")[0] for one in found] == ["model", "run"]
    assert len({one.test_set for one in found}) == 1
    scored(model, place / "news", "bleu=char", "text=news")
    assert find_runs(model, test="news").left_out == [
        f"{model}/evaluation/news-bleuchar (another tokeniser of BLEU)"
    ]
