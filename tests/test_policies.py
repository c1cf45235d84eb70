"""Policies after the step: batches equal streams, and streams a literal reading of the papers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from _pytest.mark import ParameterSet

import zoo
from simulmt.attention import Mechanism
from simulmt.attention.clocks.wait_k import LONGEST
from simulmt.attention.words import ends_of_words
from simulmt.decoding.beam import beam_search
from simulmt.decoding.by_policy import PolicyStream, decode_by, reads_of
from simulmt.decoding.drafting import Drafter
from simulmt.decoding.greedy import greedy
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.overruled import overruled
from simulmt.decoding.policies import (
    POLICIES,
    AdaptiveWaitK,
    AlignAtt,
    Confidence,
    EDAtt,
    HoldN,
    LocalAgreement,
    NewestToken,
    Retranslation,
    WaitK,
)
from simulmt.decoding.policy import (
    Counts,
    Demands,
    Draft,
    DraftPolicy,
    Policy,
    Subword,
    SubwordPolicy,
    likeliest,
)
from simulmt.decoding.search import GREEDY, Search
from simulmt.decoding.sentence import Read, Sentence
from simulmt.models.model import Model
from simulmt.parts.builders import build_policy


@dataclass(frozen=True)
class Second(SubwordPolicy):
    """Writes until the second likeliest token has the smaller number, which any model offers."""

    def halts(self, counts: Counts, word: int, subword: Subword) -> bool:
        assert subword.distribution[subword.token] == pytest.approx(subword.probability)
        return np.argsort(subword.distribution)[-2] < subword.token

    def demands(self, mechanism: Mechanism) -> Demands:
        return Demands(distribution=True)


WAITING = {
    "wait_k": WaitK(k=2),
    "hold_n": HoldN(n=2),
    "local_agreement": LocalAgreement(n=2),
    "adaptive_wait_k": AdaptiveWaitK(k_min=1, k_max=4, rho_max=0.2, rho_min=0.0),
    "align_att": AlignAtt(f=2),
    "ed_att": EDAtt(a=0.3),
    "confidence": Confidence(gamma=0.5),
    "newest_token": NewestToken(threshold=0.4),
    "retranslation": Retranslation(),
    "of a plugin": Second(),
}
MODELS = {
    "soft": ("soft", "transformer", {}),
    "soft bidirectional": ("soft", "transformer", {"encoder": "bidirectional"}),
    "sm2": ("sm2", "transformer", {}),
    "sm2 bidirectional": ("sm2", "transformer", {"encoder": "bidirectional"}),
    "luong_global": ("luong_global", "luong", {}),
    "wait_k": ("wait_k", "transformer", {}),
    "wait_k re-encoding": ("wait_k", zoo.REENCODING, {}),
    "multi_path rnmt_plus": ("multi_path", "rnmt_plus", {}),
    "mma_il": ("mma_il", "transformer", {}),
    "mma_il guided": ("mma_il", zoo.GUIDED, {}),
    "milk luong": ("milk", "luong", {}),
    "soft by words": ("soft", "transformer", {"encoder": "by_word"}),
    "wait_k by words": ("wait_k-words", "transformer", {"encoder": "by_word"}),
    "mma_il by words": ("mma_il-words", "transformer", {}),
}


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier limit: untrained models rarely end early."""
    zoo.limit_length(monkeypatch, lambda read: read + 4)


OF_EACH_SORT = ("soft bidirectional", "mma_il by words", "multi_path rnmt_plus")


def a_model(name: str, seed: int = 0) -> Model:
    mechanism, kind, sizes = MODELS[name]
    return zoo.model(zoo.MECHANISMS[mechanism], seed, kind, **sizes)


def served() -> list[ParameterSet]:
    """The pairs of policies and models that make sense.

    In the fast suite every policy meets one model, and local agreement one of each sort.
    """
    pairs, models = [], {name: a_model(name) for name in MODELS}
    for number, (policy, chosen) in enumerate(WAITING.items()):
        fitting = [
            name
            for name, made in models.items()
            if not chosen.demands(made.mechanism).misfit(made.attending_layers)
        ]
        fast = {fitting[number % len(fitting)]} if policy != "local_agreement" else OF_EACH_SORT
        for name in fitting:
            marks = [] if name in fast else [pytest.mark.slow]
            pairs.append(pytest.param(policy, name, marks=marks))
    return pairs


def reads(made: Model, tokens: list[int]) -> list[Read]:
    source = torch.tensor([tokens])
    return reads_of(ends_of_words(source, torch.ones_like(source).bool(), made.begins)[0])


def streamed(made: Model, policy: Policy, tokens: list[int], search: Search = GREEDY) -> Hypothesis:
    stream, start = PolicyStream(made, policy, search), 0
    for read in reads(made, tokens):
        stream.read_word(tokens[start : read.subwords])
        start = read.subwords
    return stream.written


@torch.inference_mode()
def literal(made: Model, policy: Policy, tokens: list[int]) -> Hypothesis:
    """Policies as they are described: drafts to their ends, states kept or made from nothing."""
    demands = policy.demands(made.mechanism)
    made = overruled(made) if demands.overrules else made
    layer = demands.layer_of(made.attending_layers) or 1
    sentence, kept, heard, start = Sentence(policy), None, None, 0
    yes = torch.tensor([True])
    last = made.vocabulary.bos
    for read in reads(made, tokens):
        bare = made.causal or made.mechanism.confident or read.ended
        closing = [] if bare else [made.vocabulary.eos]
        prefix = torch.tensor([[*tokens[: read.subwords], *closing]])
        if made.mechanism.offline:
            source = made.encode(prefix, torch.ones_like(prefix).bool())
            state = made.start(source._replace(finished=yes))
            for token in [made.vocabulary.bos, *sentence.written.tokens][:-1]:
                state = made.step(torch.tensor([token]), state).state
        else:
            source, heard = made.encode_next(torch.tensor([tokens[start : read.subwords]]), heard)
            source = source._replace(finished=yes)  # never waits
            state = kept = made.start(source) if kept is None else made.extend(kept, source)
        start = read.subwords
        draft, states = drafts(made, state, last, sentence, read, layer)
        before = len(sentence.written.tokens)
        sentence.take(draft, read)
        new = len(sentence.written.tokens) - before
        kept, last = states[new], [last, *(one.token for one in draft.subwords)][new]
    return sentence.written


def drafts(made, state, last: int, sentence: Sentence, read: Read, layer: int):
    """A whole greedy draft, and the states before each of its subwords."""
    found, states, mechanism = list[Subword](), [state], made.mechanism
    by_word = mechanism.writes_words and not mechanism.offline
    while len(sentence.written.tokens) + len(found) < read.subwords + 4:
        token = torch.tensor([[last, *(one.token for one in found)][-1]])
        step = made.step(token, state, torch.tensor([not found]) if by_word else None)
        begins = not found and (sentence.written.tokens or by_word)
        if found and by_word:
            begins = bool(made.begins[likeliest(step.logits, made.vocabulary)])
            step = made.step(token, state, torch.tensor([begins]))
        logits = step.logits.clone()
        if begins:
            logits[:, ~made.begins] = -torch.inf
        (token,) = likeliest(logits, made.vocabulary).tolist()
        if token == made.vocabulary.eos:
            break
        seen = step.weights[layer - 1][0].mean(0)[: read.subwords].numpy()
        found.append(
            Subword(
                token,
                bool(made.begins[token]) or not found,
                logits.softmax(-1)[0, token].item(),
                np.nan if step.confidence is None else step.confidence.sigmoid().item(),
                seen / seen.sum(),
                step.positions[0].tolist(),
                logits.softmax(-1)[0].numpy(),
            )
        )
        state = step.state
        states.append(state)
    words: list[tuple[int, ...]] = []
    for one in found:
        words = [*words, (one.token,)] if one.begins else [*words[:-1], (*words[-1], one.token)]
    return Draft(tuple(sentence.words), tuple(words[:-1]), tuple(found)), states


@pytest.mark.parametrize(("policy", "name"), served())
def test_batches_are_streams_and_streams_what_policies_say(policy: str, name: str) -> None:
    chosen, early, late = WAITING[policy], False, False
    for seed in range(20):
        made = a_model(name, seed)
        source, mask = zoo.sentences(3, 9, seed)
        batch = decode_by(chosen, made, source, mask)
        for row, length, hypothesis in zip(source, mask.sum(1).tolist(), batch, strict=True):
            tokens = row[:length].tolist()
            assert streamed(made, chosen, tokens) == hypothesis
            if name != "wait_k re-encoding":  # which keeps only its last prefix
                assert literal(made, chosen, tokens) == hypothesis
            early |= any(delay < length - 1 for delay in hypothesis.delays)
            late |= length in hypothesis.delays
        if early and late and seed > 0:
            return
    pytest.fail("nothing was written before the end" if not early else "all was written before")


@torch.inference_mode()
def test_a_draft_by_words_sees_all_that_is_read() -> None:
    """Also after a word of two subwords that was written earlier."""
    made = zoo.model(zoo.MECHANISMS["wait_k-words"] | {"k": LONGEST}, 0)
    source, mask = zoo.sentences(1, 9, 0)
    *_, read = made.word_ends(source, mask)[0].nonzero()[:-1, 0].tolist()
    tokens = [made.begins.nonzero()[-1].item(), (~made.begins).nonzero()[-1].item()]
    sentence = Sentence(chosen := AlignAtt(f=0))
    for token in tokens:
        sentence.written.write(token, 1, [1])
    sentence.words.append((*tokens,))
    state, now = made.start(made.encode(source, mask)), Read(4, read + 1, ended=False)
    (draft,) = Drafter(made, chosen)(state, [sentence], [now])
    assert {place for one in draft.subwords for place in one.positions} == {read + 1}


PATIENT = [
    WaitK(k=100),
    HoldN(n=1000),
    LocalAgreement(n=100),
    AdaptiveWaitK(k_min=100, k_max=100, rho_max=0, rho_min=0),
    AlignAtt(f=100),
    EDAtt(a=0.0),
    Retranslation(),
]


@pytest.mark.parametrize("policy", PATIENT, ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize("name", ["soft", "soft bidirectional", "luong_global"])
def test_a_policy_that_waits_for_the_end_gives_the_offline_translation(
    policy: Policy, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    zoo.limit_length(monkeypatch, lambda read: 2 * read + 20)
    made = a_model(name)
    source, mask = zoo.sentences(4, 9)
    batch = decode_by(policy, made, source, mask)
    for mine, offline, length in zip(
        batch, greedy(made, source, mask), mask.sum(1).tolist(), strict=True
    ):
        assert mine.tokens == offline.tokens
        if not policy.revises:
            assert set(mine.delays) <= {length}


@pytest.mark.parametrize(
    ("policy", "name"), [("local_agreement", "soft bidirectional"), ("align_att", "soft")]
)
def test_a_beam_in_batches_is_that_of_streams(policy: str, name: str) -> None:
    chosen, made, search = WAITING[policy], a_model(name), Search(3, 0.6)
    source, mask = zoo.sentences(4, 9)
    batch = decode_by(chosen, made, source, mask, search)
    for row, length, hypothesis in zip(source, mask.sum(1).tolist(), batch, strict=True):
        assert streamed(made, chosen, row[:length].tolist(), search) == hypothesis
    assert decode_by(chosen, made, source, mask, Search(1, 0.6)) == decode_by(
        chosen, made, source, mask
    )
    assert batch != decode_by(chosen, made, source, mask)


@pytest.mark.parametrize("name", ["soft", "soft bidirectional"])
def test_a_beam_that_waits_for_the_end_is_beam_search(name: str) -> None:
    made, search = a_model(name), Search(4, 0.6)
    source, mask = zoo.sentences(4, 9)
    batch = decode_by(HoldN(n=1000), made, source, mask, search)
    offline = beam_search(made, source, mask, search)
    assert [one.tokens for one in batch] == [one.tokens for one in offline]


def a_draft(words: Sequence[str], written: Sequence[str] = (), **said: list) -> Draft:
    """A draft of words whose letters are subwords."""
    left, right = ([tuple(map(ord, word)) for word in side] for side in (written, words))
    tokens = sum(right, ())
    begins = [n == 0 for word in right for n in range(len(word))]
    n = len(tokens)
    numbers = {"probability": [1.0] * n, "confidence": [1.0] * n, "attention": [[1.0]] * n} | said
    none = [np.empty(0)] * n
    rows = zip(tokens, begins, *numbers.values(), [[1]] * n, none, strict=True)
    subwords = [Subword(*row) for row in rows]
    return Draft(
        tuple(left),
        tuple(right),
        tuple(one._replace(attention=np.array(one.attention)) for one in subwords),
    )


def test_hold_n_holds_the_last_words() -> None:
    for n, written in ((0, 3), (2, 1), (3, 0), (7, 0)):
        assert HoldN(n=n).commit(Counts(3, 3, 0), [a_draft(["ab", "c", "de"])]) == written


@dataclass(frozen=True)
class Plain(DraftPolicy):
    """Hold-n, or wait-n, as a user would write them: below 0 at the beginning."""

    waits: bool

    def most(self, counts: Counts) -> int | None:
        return counts.words_read - 5 if self.waits else None

    def commit(self, counts: Counts, drafts: Sequence[Draft]) -> int:
        return len(drafts[-1].words) - 5 * (not self.waits)


@pytest.mark.parametrize("waits", [True, False])
def test_less_than_no_word_is_no_word(waits: bool) -> None:
    sentence, read = Sentence(Plain(waits)), Read(3, 3, ended=False)
    sentence.take(a_draft(["a", "b", "c"]), read)
    assert (sentence.words, sentence.written.tokens) == ([], [])
    assert sentence.most(read) == (0 if waits else None)


@pytest.mark.parametrize("past", range(6))
def test_a_policy_compares_the_newest_draft_with_as_many_as_it_asks_for(past: int) -> None:
    compared = list[list[int]]()

    class Recorder(DraftPolicy):
        def commit(self, counts: Counts, drafts: Sequence[Draft]) -> int:
            compared.append([word for draft in drafts for (word,) in draft.words])
            return 0

    Recorder.past = past  # type: ignore[assignment, method-assign]
    sentence = Sentence(Recorder())
    for number in range(8):
        sentence.take(Draft((), ((number,),), ()), Read(number + 1, number + 1, ended=False))
    wanted = [[*range(max(number - past, 0), number + 1)] for number in range(8)]
    assert compared == wanted


@pytest.mark.parametrize("number", [None, 1.5])
def test_what_is_no_number_of_words_is_an_error(number: float | None) -> None:
    class Forgets(DraftPolicy):
        def commit(self, counts: Counts, drafts: Sequence[Draft]) -> int:
            return number  # type: ignore[return-value]

    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        Sentence(Forgets()).take(a_draft(["a", "b"]), Read(3, 3, ended=False))


def test_ed_att_with_a_of_1_waits_while_all_attention_is_on_the_newest() -> None:
    """In spite of rounding, with which the attention may sum to a little less than 1."""
    attention = np.full(49, 1 / 49)
    assert attention.sum() < 1
    draft = [Subword(7, True, 1.0, np.nan, attention, [], np.empty(0))] * 2
    one = Draft((), ((7,),) * 2, tuple(draft))
    assert EDAtt(a=1.0, last=49).commit(Counts(9, 49, 0), [one]) == 0
    assert EDAtt(a=1.0, last=48).commit(Counts(9, 49, 0), [one]) == 2


def test_local_agreement_writes_the_common_words() -> None:
    one, two = a_draft(["ab", "cd", "e"]), a_draft(["ab", "cx"])
    three = a_draft(["cd", "e", "f"], written=["ab"])
    agree = LocalAgreement(n=2).commit
    assert agree(Counts(1, 1, 0), [one]) == 0
    assert agree(Counts(2, 2, 0), [one, two]) == 1, "a word is not agreed on by halves"
    assert agree(Counts(3, 3, 1), [one, three]) == 2, "what is written does not count"
    assert agree(Counts(3, 3, 1), [two, three]) == 0
    assert LocalAgreement(n=1).commit(Counts(1, 1, 0), [one]) == 3


def test_holding_no_word_is_agreeing_with_itself() -> None:
    for words in ([], ["ab"], ["ab", "cd", "e"]):
        drafts = [a_draft(words)]
        held = HoldN(n=0).commit(Counts(1, 1, 0), drafts)
        assert held == LocalAgreement(n=1).commit(Counts(1, 1, 0), drafts) == len(words)


def test_adaptive_wait_k_asks_less_of_a_longer_lag() -> None:
    policy = AdaptiveWaitK(k_min=2, k_max=4, rho_max=0.8, rho_min=0.2)
    assert [policy.rho(lag) for lag in (2, 3, 4, 9)] == [0.8, 0.5, 0.0, 0.0]
    assert policy.rho(1) == float("inf")
    sure = a_draft(["ab", "c", "d", "e"], probability=[0.6, 0.1, 0.6, 0.9, 1.0])
    for lag, written in ((1, 0), (2, 0), (3, 1), (4, 3), (5, 4)):
        counts = Counts(lag + 2, 9, 2)
        assert policy.most(counts) == max(lag - 1, 0)
        assert min(policy.commit(counts, [sure]), policy.most(counts)) == written


def test_align_att_stops_at_what_is_aligned_to_the_newest() -> None:
    aligned = [0, 0, 1, 2, 0]  # 'd' is aligned to the third of three source subwords
    draft = a_draft(["ab", "c", "de"], attention=np.eye(3)[aligned].tolist())
    for f, written in ((0, 3), (1, 2), (2, 1), (3, 0), (9, 0)):
        assert AlignAtt(f=f).commit(Counts(3, 3, 0), [draft]) == written
    mechanism = zoo.model(zoo.options("soft")).mechanism
    assert AlignAtt(f=1).demands(mechanism).layer_of(6) == 4, "the fourth of six, as in the paper"
    assert AlignAtt(f=1, layer=2).demands(mechanism).layer_of(6) == 2


@pytest.mark.parametrize("name", ["wait_k", "multi_path", "wait_info"])
def test_heads_of_a_clock_see_all_that_is_read(name: str) -> None:
    """Else the newest tokens, by whose attention the policy decides, could never get any."""
    mechanism = zoo.model(zoo.options(name)).mechanism
    assert AlignAtt(f=1).demands(mechanism).dials == {"k": LONGEST}
    assert EDAtt(a=0.1).demands(mechanism).dials == {"k": LONGEST}


def test_ed_att_stops_where_the_newest_are_attended_to() -> None:
    rows = [[0.9, 0.05, 0.05], [0.7, 0.2, 0.1], [0.5, 0.2, 0.3]]
    draft = a_draft("abc", attention=rows)
    for a, last, written in ((0.5, 2, 2), (0.51, 2, 3), (0.3, 2, 1), (0.3, 1, 2), (0.05, 9, 0)):
        assert EDAtt(a=a, last=last).commit(Counts(3, 3, 0), [draft]) == written


@pytest.mark.parametrize("name", ["soft", "soft bidirectional"])
def test_attention_to_what_is_read_sums_to_1(name: str) -> None:
    """Without the EOS that closes a prefix for a bidirectional encoder."""
    seen: list[Subword] = []

    class Watching(AlignAtt):
        def halts(self, counts: Counts, word: int, subword: Subword) -> bool:
            assert len(subword.attention) == counts.subwords_read
            seen.append(subword)
            return super().halts(counts, word, subword)

    source, mask = zoo.sentences(4, 6)
    decode_by(Watching(f=1, layer=1), a_model(name), source, mask)
    sums = [subword.attention.sum() for subword in seen]
    assert sums == pytest.approx([1.0] * len(sums), abs=1e-12), "float64: rounding only"
    assert len(sums) > 20


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_has_a_file_with_its_options(name: str) -> None:
    options = zoo.yaml_of(f"policy/{name}")
    made = build_policy(options)
    assert type(made) is POLICIES[name]


@pytest.mark.parametrize(
    ("policy", "mechanism", "said"),
    [
        (WaitK(k=3), "wait_k", "clock of mechanism=wait_k waits: leave out policy, and set dial.k"),
        (EDAtt(a=0.1), "luong_local_m", "part of it: use policy=own"),
        (AlignAtt(f=1), "hmt", "part of it: use policy=own"),
        (AlignAtt(f=1, layer=7), "soft", "policy.layer=7, but 2 layers .* from 1 to 2"),
    ],
)
def test_what_makes_no_sense_is_said(policy: Policy, mechanism: str, said: str) -> None:
    assert re.search(said, policy.demands(zoo.model(zoo.options(mechanism)).mechanism).misfit(2))


@pytest.mark.parametrize(("name", "kind"), zoo.pairs(zoo.OFFLINE))
def test_replayed_steps_are_steps(name: str, kind: str) -> None:
    """The decoder goes on alike after steps that were taken at once and one by one."""
    made = zoo.model(zoo.MECHANISMS[name], kind=kind)
    source, mask = zoo.sentences(5, 9)
    target = torch.randint(4, zoo.VOCABULARY, (5, 7))
    with torch.no_grad():
        one = other = made.start(made.encode(source, mask))
        for tokens in target.split((3, 1, 2, 1), 1):
            for token in tokens.unbind(1):
                step = made.step(token, one)
                one = step.state
            again = made.step(tokens[:, -1], made.replay(tokens[:, :-1], other))
            other = again.state
            torch.testing.assert_close(again.logits, step.logits, rtol=0, atol=1e-9)
