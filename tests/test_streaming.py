"""Streaming as a listener sees it: no peeking, and the words of a batch."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import torch

import zoo
from simulmt.data.subwords import Subwords
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.greedy import greedy
from simulmt.live.translator import Translator
from zoo import EOS

ROOT = Path(__file__).parents[1]
CPU = torch.device("cpu")
STREAMING = [
    name
    for name in zoo.STREAMING
    if (zoo.CONF / "mechanism" / f"{name}.yaml").is_file() or name.endswith("-words")
]
CUT = 6
WORDS = 12


@cache
def text() -> tuple[Subwords, list[str]]:
    """Subwords, and sentences of `WORDS` words."""
    split = verbfinal(1, 20, 200, 20).splits["valid"]
    long = [source.split() for source in split.sources if len(source.split()) >= WORDS]
    subwords = Subwords.train(split.sample(), 200, "bpe")
    return subwords, [" ".join(words[:WORDS]) for words in long]


@pytest.mark.parametrize(("name", "kind"), zoo.pairs(STREAMING))
def test_what_was_said_depends_on_nothing_that_comes_later(name, kind, monkeypatch):
    # Untrained models write until they are stopped; a lower limit leaves all words that are early.
    zoo.limit_length(monkeypatch, lambda read: read + 9)
    subwords, sentences = text()
    said = 0
    for seed, one, other in zip(range(3, 9), sentences[:6], sentences[6:12], strict=True):
        chosen = zoo.MECHANISMS[name] | ({"window": 3} if name == "luong_local_m" else {})
        made = zoo.model(chosen, seed, kind, vocabulary=subwords.vocabulary)
        translator = Translator(made, subwords, CPU)
        heard = one.split()[:CUT]
        early = [new for word in heard for new in translator.read(word)]
        said += len(early)
        for rest in (one.split()[CUT:], other.split()[CUT:], []):
            ids = torch.tensor([[*subwords.encode(" ".join([*heard, *rest])), EOS]])
            (whole,) = greedy(made, ids, ids != 0)
            assert subwords.decode(whole.tokens).split()[: len(early)] == early
            again = Translator(made, subwords, CPU)
            words = [new for word in [*heard, *rest] for new in again.read(word)] + again.finish()
            assert again.stream.written == whole
            assert " ".join(words) == subwords.decode(whole.tokens)
        if said:
            return
    rarely = (name, kind) == ("luong_local_m", zoo.GUIDED)  # a word's end is known late there
    assert said or rarely, "without early words this says nothing"


@pytest.fixture(scope="module")
def equality() -> Iterator[ModuleType]:
    """The program, which makes its corpus once here; its longest sentence has but 40 words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "experiments/streaming"))
        module = importlib.import_module("equality")
        patch.setattr(module, "LONG", 40)
        patch.setattr(module, "read_sentences", cache(module.read_sentences))
        yield module


def test_a_few_sentences_of_the_table_of_equalities(equality, tmp_path):
    sources, subwords = equality.read_sentences(2)
    asked = ["--mechanisms=wait_k,hmt,mma_il", "--models=transformer"]
    cells = equality.make_cells(equality.parse(asked))
    assert [cell.mechanism for cell in cells] == ["wait_k", "hmt", "mma_il"]
    few = [sources[0], *sources[-2:]]
    results = {cell: equality.compare(cell, few, subwords) for cell in cells}
    equality.write_files(results, tmp_path)
    assert "| wait_k | 3: 0 |" in (tmp_path / "equality.md").read_text()
    for counts in results.values():
        assert (counts.sentences, counts.mismatches) == (3, 0)


@pytest.mark.slow
def test_the_table_of_equalities(equality, tmp_path):
    few = ["--sentences=2", "--mechanisms=wait_k,mma_il,soft", "--models=transformer", "--jobs=1"]
    assert equality.run(equality.parse([*few, f"--output={tmp_path}"])) == 0
    with (tmp_path / "equality.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["mechanism"], row["sentences"], row["mismatches"]) for row in rows] == [
        ("wait_k", "6", "0"),  # two, and the four odd ones
        ("mma_il", "6", "0"),
    ]
    assert all(int(row["early"]) for row in rows), "without early words this says nothing"
    head, _, *lines = (tmp_path / "equality.md").read_text().splitlines()
    assert head == "| mechanism | transformer, random |"
    assert lines == ["| wait_k | 6: 0 |", "| mma_il | 6: 0 |"]
