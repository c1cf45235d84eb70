from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from simulmt.analysis.summary import repeated
from simulmt.data.corpus import Corpus, LazySplits, Split
from simulmt.data.manifest import Manifest, check_manifest, manifest
from simulmt.data.subwords import Subwords
from simulmt.data.text import NORMALISATION
from simulmt.errors import UserError
from simulmt.options import convert


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    train = Split(["ein Hut", "zwei Hüte"], ["a hat", "two hats"], dropped={"empty": 1})
    valid = Split(["Hut"], ["hat"])
    return Corpus("toy", "de", "en", {"train": train, "valid": valid, "test": valid})


@pytest.fixture(scope="module")
def subwords(corpus: Corpus) -> Subwords:
    return Subwords.train([*corpus.splits["train"].sources, "a hat", "two hats"], 20, "bpe")


def test_manifest_is_plain_json(corpus: Corpus, subwords: Subwords) -> None:
    description: dict[str, Any] = asdict(manifest(corpus, subwords))
    assert json.loads(json.dumps(description)) == description
    assert convert(description, Manifest) == manifest(corpus, subwords)
    assert description["splits"]["train"] == {
        "pairs": 2,
        "dropped": {"empty": 1},
        "source_sha256": hashlib.sha256("ein Hut\nzwei Hüte\n".encode()).hexdigest(),
        "target_sha256": hashlib.sha256(b"a hat\ntwo hats\n").hexdigest(),
    }
    assert description["subwords"] == {"digest": subwords.digest, "size": 20}
    assert description["normalisation"] == NORMALISATION
    assert [*description.values()][:3] == ["toy", "de", "en"]


def test_the_name_and_the_other_splits_may_differ(corpus: Corpus, subwords: Subwords) -> None:
    other = replace(corpus, name="x", splits={**corpus.splits, "train": Split(["a"], ["a"])})
    check_manifest(manifest(corpus, subwords), manifest(other, subwords), ["valid", "test"])
    check_manifest(manifest(corpus, subwords), manifest(replace(other, splits={}), subwords), [])


def test_no_other_split_is_read(corpus: Corpus, subwords: Subwords) -> None:
    def read(name: str) -> Split:
        assert name == "test"
        return Split(["a"], ["b"])

    lazy = replace(corpus, splits=LazySplits(read))
    assert list(manifest(lazy, subwords, ["test"]).splits) == ["test"]


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        (("source_language",), "choose the data of the model's language pair"),
        (("target_language",), "choose the data of the model's language pair"),
        (("normalisation",), "version of simulmt that trained the model, or retrain"),
        (("subwords", "digest"), "train with the model's subwords (data.subwords.model=RUN)"),
        (("splits", "test", "source_sha256"), "use the test text that the model was trained with"),
        (("splits", "test", "target_sha256"), "use the test text that the model was trained with"),
    ],
)
def test_what_differs_is_named(
    corpus: Corpus, subwords: Subwords, path: tuple[str, ...], remedy: str
) -> None:
    expected, value = manifest(corpus, subwords), "other"
    present: dict[str, Any] = asdict(expected)
    part = present
    for key in path[:-1]:
        part = part[key]
    old, part[path[-1]] = part[path[-1]], value
    with pytest.raises(UserError) as error:
        check_manifest(expected, convert(present, Manifest), ["test"])
    message = str(error.value)
    assert message.startswith("the data are not those of the model. ")
    assert f"{' '.join(path)} (model: {old}, here: {value})" in message
    assert remedy in message
    assert message.count("model: ") == 1


def test_text_that_is_scored_and_trained_on_is_named(
    corpus: Corpus, subwords: Subwords, capsys: pytest.CaptureFixture[str]
) -> None:
    described = manifest(corpus, subwords)
    repeated("train", corpus.splits["train"], described)
    assert capsys.readouterr().out == ""
    repeated("mine", corpus.splits["valid"], described)
    said = capsys.readouterr().out
    assert said.startswith("warning: mine has the same source text as valid")
    assert said.count("\n") == 1
    without = replace(described, splits={})
    repeated("mine", corpus.splits["valid"], without)
    assert capsys.readouterr().out == ""


def test_the_same_sources_with_other_references_are_a_repetition(corpus, subwords, capsys):
    described = manifest(corpus, subwords)
    repeated("mine", Split(["Hut"], ["another hat"]), described)
    assert "mine has the same source text as valid" in capsys.readouterr().out
    repeated("mine", Split(["Hüte"], ["hat"]), described)
    assert capsys.readouterr().out == ""
