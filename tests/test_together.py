"""Live sentences that read in one batch: the words, delays and times that each gets alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple
from unittest.mock import patch

import pytest
import torch
from _pytest.mark import ParameterSet

import zoo
from simulmt.data.subwords import Subwords
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding import encoded_prefix
from simulmt.decoding.policies import (
    AlignAtt,
    Confidence,
    LocalAgreement,
    NewestToken,
    Retranslation,
    WaitK,
)
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import GREEDY, Search
from simulmt.live import translator as live
from simulmt.live.together import read_together
from simulmt.live.translator import Translator
from simulmt.models.joined import join
from simulmt.models.model import Model

CPU = torch.device("cpu")
LENGTHS = (0, 1, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9)
"""Words of a dozen sentences; the last is cut, as the longest sentences are."""
CUT = 12
"""Subwords of the longest sentence."""
SAYS_NOTHING = "without early words this says nothing"


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier limits: untrained models rarely end early."""
    zoo.limit_length(monkeypatch, lambda read: read + 4)
    monkeypatch.setattr(live, "LONGEST", CUT)


@cache
def text() -> tuple[Subwords, list[list[str]]]:
    """Subwords, and a dozen sentences in words."""
    split = verbfinal(1, 20, 200, 20).splits["valid"]
    long = [source.split() for source in split.sources if len(source.split()) >= max(LENGTHS)]
    subwords = Subwords.train(split.sample(), 200, "bpe")
    return subwords, [words[:length] for words, length in zip(long, LENGTHS, strict=False)]


def a_model(name: str, kind: str = "transformer", seed: int = 1, **sizes: object) -> Model:
    chosen = zoo.MECHANISMS[name] | ({"window": 2} if name == zoo.READS_ALL else {})
    return zoo.model(chosen, seed, kind, vocabulary=text()[0].vocabulary, **sizes)


class Sort(NamedTuple):
    """How a sentence is translated."""

    model: Model
    policy: Policy | None = None
    search: Search = GREEDY

    def translator(self) -> Translator:
        return Translator(self.model, text()[0], CPU, self.policy, self.search)


def interleave(sorts: Sequence[Sort], seed: int = 0) -> int:
    """Let the sentences read at random turns; return how many words come before their ends.

    The sorts of the sentences take turns. Each call lets some of the sentences read that have
    begun, and a sentence begins when it is first drawn.
    """
    draw = random.Random(seed)
    words = [[*sentence, None] for sentence in text()[1]]
    pairs = [
        (sorts[n % len(sorts)].translator(), sorts[n % len(sorts)].translator())
        for n in range(len(words))
    ]
    early = 0
    while left := [n for n, own in enumerate(words) if own]:
        turn = draw.sample(left, draw.randint(1, len(left)))
        heard = [words[n].pop(0) for n in turn]
        new = read_together([pairs[n][0] for n in turn], heard)
        for n, word, said in zip(turn, heard, new, strict=True):
            joined, alone = pairs[n]
            assert said == (alone.finish() if word is None else alone.read(word))
            assert joined.stream.written == alone.stream.written
            assert joined.shown == alone.shown
            early += len(said) * (word is not None) + bool(joined.shown)
    assert [one.words_written for one, _ in pairs] == [one.words_written for _, one in pairs]
    return early


def some_early(sorts: Callable[[int], Sequence[Sort]]) -> bool:
    """Whether words come before the ends of sentences, for one of several seeds at the latest."""
    return any(interleave(sorts(seed), seed) for seed in range(6))


def own_decisions() -> list[ParameterSet]:
    """Every mechanism that streams; in the fast suite a few, as its laws let all read together."""
    pairs = [(name, kind) for name in zoo.STREAMING for kind in zoo.kinds(zoo.MECHANISMS[name])]
    fast = {
        *(("hmt", "transformer"), ("mma_il", "rnmt_plus"), ("wait_k", "luong")),
        *(("wait_k", zoo.REENCODING), ("wait_k", zoo.GUIDED), ("wait_k-words", zoo.BY_WORD)),
    }
    return [pytest.param(*pair, marks=[] if pair in fast else [pytest.mark.slow]) for pair in pairs]


@pytest.mark.parametrize(("name", "kind"), own_decisions())
def test_sentences_get_together_what_they_get_alone(name: str, kind: str) -> None:
    early = some_early(lambda seed: [Sort(a_model(name, kind, seed))])
    assert early or (name, kind) == (zoo.READS_ALL, zoo.GUIDED), SAYS_NOTHING


AGREE, TWO = LocalAgreement(n=2), {"encoder": "bidirectional"}
ASKED: dict[str, tuple[str, str, dict[str, str], Policy, Search]] = {
    "wait_k": ("soft", "transformer", {}, WaitK(k=2), GREEDY),
    "wait_k, bidirectional": ("soft", "transformer", TWO, WaitK(k=2), GREEDY),
    "agreement": ("soft", "transformer", TWO, AGREE, GREEDY),
    "agreement, by words": ("soft", "transformer", {"encoder": "by_word"}, AGREE, GREEDY),
    "agreement, recurrent": ("soft", "rnmt_plus", TWO, AGREE, GREEDY),
    "agreement of beams": ("soft", "transformer", {}, AGREE, Search(3, 0.6)),
    "agreement of a clock's drafts": ("wait_k", "transformer", {}, AGREE, GREEDY),
    "agreement of drafts of words": ("mma_il-words", "transformer", {}, AGREE, GREEDY),
    "align_att": ("soft", "transformer", TWO, AlignAtt(f=2), GREEDY),
    "retranslation": ("soft", "transformer", TWO, Retranslation(), GREEDY),
    "retranslation, recurrent": ("luong_global", "luong", {}, Retranslation(), GREEDY),
    "confidence": ("sm2", "transformer", TWO, Confidence(gamma=0.5), GREEDY),
    "newest token": ("mma_il", "transformer", {}, NewestToken(threshold=0.4), GREEDY),
    "newest token, recurrent": ("mma_il", "luong", {}, NewestToken(threshold=0.4), GREEDY),
}


@pytest.mark.parametrize("name", ASKED)
def test_policies_decide_together_as_alone(name: str) -> None:
    mechanism, kind, sizes, policy, search = ASKED[name]
    early = some_early(lambda n: [Sort(a_model(mechanism, kind, n, **sizes), policy, search)])
    assert early or kind == "luong", SAYS_NOTHING  # its fresh weights end drafts at once


def test_models_and_policies_may_be_mixed_in_one_call() -> None:
    soft, clock = a_model("soft"), a_model("wait_k")
    sorts = [Sort(clock), Sort(a_model("mma_il")), Sort(soft, WaitK(k=2)), Sort(soft, WaitK(k=3))]
    for seed in range(3):
        assert interleave([*sorts, Sort(soft, Retranslation())], seed)


@pytest.mark.parametrize("policy", [None, LocalAgreement(n=2)], ids=["own", "local_agreement"])
def test_sentences_of_unlike_lengths_are_apart(policy: Policy | None) -> None:
    sort = Sort(a_model("wait_k"), policy)
    with patch.object(encoded_prefix, "SHORT", 1):
        assert interleave([sort])


@pytest.mark.parametrize("kind", zoo.SMALL)
def test_sentences_that_have_begun_share_a_pass(kind: str) -> None:
    made = a_model("wait_k", kind)
    translators = [Sort(made).translator() for _ in range(6)]
    word = next(word for word in text()[1][-1] if len(text()[0].encode(word)) == 1)
    for n, translator in enumerate(translators):
        for _ in range(n + 1):
            translator.read(word)
    with patch.object(made, "encode_next", wraps=made.encode_next) as encode_next:
        read_together(translators, [word] * 6)
    assert [len(call.args[0]) for call in encode_next.call_args_list] == [6]


def test_joined_states_are_the_same_alone_and_need_no_others() -> None:
    draw = torch.Generator().manual_seed(0)
    rows = [
        (torch.randn(1, 2, length, 3, generator=draw), torch.ones(1, length).bool(), None)
        for length in (2, 5, 0)
    ]
    joined, more = join(rows), torch.randn(3, 2, 2, 3, generator=draw)
    keys, mask, nothing = joined.state
    assert [*map(tuple, (keys.shape, mask.shape))] == [(3, 2, 5, 3), (3, 5)]
    assert mask.sum(1).tolist() == [2, 5, 0]
    assert nothing is None
    longer = joined.grown((torch.cat([keys, more], 2), mask.new_ones(3, 7) & True, None))
    for n, ((before, _, _), (after, real, _)) in enumerate(zip(rows, longer.alone(), strict=True)):
        assert torch.equal(after, torch.cat([before, more[n : n + 1]], 2))
        assert real.shape[1] == after.shape[2]
        assert after.untyped_storage().nbytes() == after.nbytes, "no memory of other sentences"
    (last,) = longer.select([1]).alone()
    assert torch.equal(last[0], longer.alone()[1][0])
