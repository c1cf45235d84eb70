"""sacreBLEU's test sets as splits and in `evaluate.py`, from a folder laid out by hand."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
import sacrebleu.dataset
import sacrebleu.utils

from simulmt.data.reader import read_text
from simulmt.errors import UserError
from simulmt.programs.evaluate import evaluate
from simulmt.scoring.scores import Scores
from simulmt.system.disk import read_record
from small_runs import SMALL, configuration

pytestmark = pytest.mark.usefixtures("no_pictures")
SOURCES, TARGETS = ["der  Mann", "die Frau", "ein Hut"], ["the man", "the woman", "a\u00a0hat"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """sacreBLEU's folder, which it takes from its environment when it is imported."""
    place = tmp_path / "sacrebleu"
    monkeypatch.setattr(sacrebleu.utils, "SACREBLEU_DIR", str(place))
    for name, dataset in sacrebleu.dataset.DATASETS.items():
        monkeypatch.setattr(dataset, "_outdir", str(place / name))
        monkeypatch.setattr(dataset, "_rawdir", str(place / name / "raw"))
    return place


def lay(place: Path, name: str, pair: str, *references: list[str]) -> None:
    """Write the files of a test set as sacreBLEU does after a download."""
    fields = sacrebleu.dataset.DATASETS[name].fieldnames(pair)
    named = [field for field in fields if field.startswith("ref")]
    texts = {"src": SOURCES, **dict(zip(named, references, strict=True))}
    (place / name).mkdir(parents=True)
    for field in fields:
        file = f"{name.replace('/', '_')}.{pair}.{field.replace(':', '-')}"
        text = "".join(f"{line}\n" for line in texts.get(field, ["x"] * len(SOURCES)))
        (place / name / file).write_text(text, encoding="utf-8")


def read(root: Path, pair: str = "de-en", cache: Path | None = None, **stems: str):
    names = {"train": "train", "valid": "valid", "test": "test", **stems}
    return read_text(str(root), *pair.split("-"), **names, max_words=9, name="mine", cache=cache)


def test_a_test_set_is_a_split(place: Path, tmp_path: Path) -> None:
    lay(place, "wmt15", "de-en", TARGETS)
    for cache in (None, tmp_path / "cache", tmp_path / "cache"):
        corpus = read(tmp_path, cache=cache, test="sacrebleu:wmt15", train="sacrebleu:wmt15")
        for split in (corpus.splits["test"], corpus.splits["train"]):
            assert [*split.sources] == ["der Mann", "die Frau", "ein Hut"]
            assert [*split.targets] == ["the man", "the woman", "a hat"]


def test_of_several_references_the_first_one_counts(place: Path, tmp_path: Path, capsys) -> None:
    lay(place, "wmt17/tworefs", "en-fi", ["yksi", "kaksi", "kolme"], ["x", "y", "z"])
    split = read(tmp_path, "en-fi", valid="sacrebleu:wmt17/tworefs").splits["valid"]
    assert [*split.targets] == ["yksi", "kaksi", "kolme"]
    assert "wmt17/tworefs en-fi has 2 references: the first one is used" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "pair", "message"),
    [
        ("wmt51", "de-en", "sacreBLEU has no sacrebleu:wmt51 de-en; `sacrebleu --list`"),
        ("multi30k/2016", "de-en", "sacrebleu:multi30k/2016 de-en; it has en-fr, en-de, en-cs"),
        ("wmt14", "de-en", "Network is unreachable.*`sacrebleu -t wmt14 -l de-en --echo src`"),
    ],
)
def test_what_sacrebleu_does_not_have_is_one_line(
    place: Path, tmp_path: Path, name: str, pair: str, message: str, monkeypatch
) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket, "create_connection", unreachable)
    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    before = socket.getdefaulttimeout()
    with pytest.raises(UserError, match=message):
        read(tmp_path, pair, test=f"sacrebleu:{name}").splits["test"]
    assert socket.getdefaulttimeout() == before


def test_a_corrupt_download_is_one_line(place: Path, tmp_path: Path, monkeypatch) -> None:
    """SacreBLEU logs the reason and exits."""
    monkeypatch.setattr(sacrebleu.utils, "get_source_file", lambda *_: sys.exit(1))
    with pytest.raises(UserError, match="wmt14 de-en: the download is corrupt; `sacrebleu -t wmt"):
        read(tmp_path, test="sacrebleu:wmt14").splits["test"]


def test_evaluate_scores_a_test_set(place: Path, trained_once, capsys) -> None:
    run = trained_once(*SMALL)
    lay(place, "wmt15", "de-en", TARGETS)
    evaluate(configuration("evaluate", f"checkpoint={run}", "split=sacrebleu:wmt15", "device=cpu"))
    scores = read_record(run / "evaluation" / "wmt15-best" / "scores.json", Scores)
    assert (scores.sentences, scores.decoding.split) == (3, "wmt15")
    assert scores.decoding.text.source == str(place / "wmt15" / "wmt15.de-en.src")
    assert "on wmt15" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["source=a", "target=b"], "split=sacrebleu:wmt15 with source=a and target=b"),
        (["text=b/c"], "text is 'b/c'; it must be a name for a folder"),
    ],
)
def test_what_is_wrong_with_the_command_is_one_line(options: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        evaluate(configuration("evaluate", "checkpoint=no", "split=sacrebleu:wmt15", *options))
