"""No peeking, as a listener sees it: what was said depends on nothing that was said later."""

from __future__ import annotations

from functools import cache
from itertools import chain

import pytest
import torch

import zoo
from simulmt.data.subwords import EOS, Subwords
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.greedy import greedy
from simulmt.translator import Translator

CPU = torch.device("cpu")
STREAMING = [name for name in zoo.STREAMING if (zoo.CONF / "mechanism" / f"{name}.yaml").is_file()]
CUT = 6
WORDS = 12


@cache
def text() -> tuple[Subwords, list[str]]:
    """Subwords, and sentences of `WORDS` words."""
    split = verbfinal(1, 20, 200, 20).splits["valid"]
    long = [source.split() for source in split.sources if len(source.split()) >= WORDS]
    subwords = Subwords.train(chain(split.sources, split.targets), 200, "bpe")
    return subwords, [" ".join(words[:WORDS]) for words in long]


@pytest.mark.parametrize("name", STREAMING)
@pytest.mark.parametrize("kind", zoo.SIZES)
def test_what_was_said_depends_on_nothing_that_comes_later(name, kind):
    subwords, sentences = text()
    said = 0
    for seed, (one, other) in enumerate(zip(sentences[:3], sentences[3:6], strict=True)):
        chosen = zoo.options(name) | ({"window": 3} if name == "luong_local_m" else {})
        made = zoo.model(chosen, seed, kind, vocabulary=len(subwords))
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
            assert again.live.written == whole
            assert " ".join(words) == subwords.decode(whole.tokens)
    assert said, "without early words this says nothing"
