"""Reports on exported models, which have no training but evaluations."""

from __future__ import annotations

from pathlib import Path

import pytest

from reported import QUICK, rows
from simulmt.analysis.report import report
from simulmt.analysis.runs.found import find_runs
from simulmt.data.verbfinal import verbfinal
from simulmt.errors import UserError
from simulmt.programs.evaluate import evaluate
from simulmt.programs.export import export
from small_runs import LONGER, configuration

pytestmark = pytest.mark.usefixtures("no_pictures")


def scored(checkpoint: Path, text: Path, *overrides: str) -> None:
    files = [f"source={text}.de", f"target={text}.en", "device=cpu"]
    evaluate(configuration("evaluate", f"checkpoint={checkpoint}", *files, *overrides))


@pytest.fixture(scope="module")
def place(trained_once, tmp_path_factory) -> Path:
    """A folder with an exported model, `model`, that was evaluated on news, and the news."""
    folder = tmp_path_factory.mktemp("exported")
    split = verbfinal(1, 300, 21, 23).splits["test"]
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


def test_models_below_a_folder_count_where_their_text_is_named(place):
    found = find_runs(place, test="news")
    assert [run.home for run in found.runs] == ["model"] * 3
    assert find_runs(place).runs == [], "without a name only runs have a test set"


def test_one_of_several_texts_has_to_be_named(place, tmp_path):
    scored(place / "model", place / "other")
    with pytest.raises(UserError, match="evaluated on news, other: choose with test=NAME"):
        report({**QUICK, "runs": place / "model", "to": str(tmp_path)})
    report({**QUICK, "runs": place / "model", "test": "other", "to": str(tmp_path)})
    assert len(rows(tmp_path / "curves.csv")) == 1
    with pytest.raises(UserError, match="evaluated on news, other: choose with test=NAME"):
        report({**QUICK, "runs": place / "model", "test": "third"})
