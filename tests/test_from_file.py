"""Reads and writes as data: what a file holds, and the identity of a log and its replay."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

import zoo
from simulmt.decoding.by_policy import PolicyStream, decode_by, reads_of
from simulmt.decoding.decoder import decoder
from simulmt.decoding.greedy import greedy
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.policies import AlignAtt, FromFile, HoldN, LocalAgreement, WaitK
from simulmt.decoding.policies.from_file import Replay
from simulmt.decoding.policy import Policy
from simulmt.decoding.recorded import read_recorded
from simulmt.decoding.search import GREEDY, Search
from simulmt.decoding.word_map import WordMap
from simulmt.errors import UserError
from simulmt.models.model import Model


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier limit: untrained models rarely end early."""
    zoo.limit_length(monkeypatch, lambda read: read + 4)


def words_of(made: Model, source: torch.Tensor) -> list:
    return reads_of(made.word_ends(source[None], torch.ones_like(source[None]).bool())[0])


def log_of(made: Model, source: torch.Tensor, written: Hypothesis) -> Replay:
    """The replay by words that a log of a decoding asks for, in plain loops."""
    reads = words_of(made, source)
    begins = made.begins[torch.tensor(written.tokens, dtype=torch.long)].tolist()
    ends = [n for n in range(len(begins)) if n + 1 == len(begins) or begins[n + 1]]
    raw = [written.delays[end] for end in ends]
    counts = [next(read.subwords for read in reads if read.subwords >= delay) for delay in raw]
    early = sum(delay < len(source) for delay in raw)
    return Replay(tuple(counts[:early]))


def words_alone(text: str) -> WordMap:
    """Each word is a subword."""
    return WordMap.of_lengths(1 for _ in text.split())


FAST = {
    ("wait_k", "transformer"),
    ("mma_il", "transformer"),
    ("mma_il-words", "transformer"),
    ("itst", "transformer"),
    ("hmt", "transformer"),
    ("milk", "luong"),
    ("mocha", "rnmt_plus"),
    ("wait_k", zoo.REENCODING),
}
PAIRS = [pair.values for pair in zoo.pairs(zoo.STREAMING)]
MARKED = [pytest.param(*pair, marks=[] if pair in FAST else [pytest.mark.slow]) for pair in PAIRS]


@pytest.mark.parametrize(("name", "kind"), MARKED)
def test_a_log_in_subwords_gives_the_own_decisions_back(name: str, kind: str) -> None:
    early = False
    for seed in range(4):
        made = zoo.model(zoo.MECHANISMS[name], seed, kind)
        source, mask = zoo.sentences(4, 9, seed)
        own = greedy(made, source, mask)
        policies = [Replay((), tuple(one.delays)) for one in own]
        assert decoder(GREEDY, policies)(made, source, mask) == own
        lengths = mask.sum(1).tolist()
        early |= any(set(one.delays) - {n} for one, n in zip(own, lengths, strict=True))
        if early:
            return
    assert name == zoo.READS_ALL, "all was written at the end"


def test_a_replay_of_hmt_leaves_later_states_open() -> None:
    """Later tokens see what an earlier token's states read after it was written."""
    for seed in range(12):
        chosen = zoo.MECHANISMS["hmt"] | {"first_read": 1, "states": 6}
        made = zoo.model(chosen, seed)
        made.embedding.weight.data *= 0.3
        source, mask = zoo.sentences(8, 10, seed)
        own = greedy(made, source, mask)
        steps = [one.delays for one in own]
        assert greedy(made, source, mask, steps=steps) == own


@pytest.mark.parametrize(
    ("policy", "name", "encoder", "search"),
    [
        (LocalAgreement(n=2), "soft", "bidirectional", GREEDY),
        (LocalAgreement(n=2), "soft", "causal", GREEDY),
        (LocalAgreement(n=1), "soft", "bidirectional", Search(3, 0.6)),
        (HoldN(n=1), "mma_il", "causal", GREEDY),
        (WaitK(k=2), "soft", "bidirectional", GREEDY),
        (AlignAtt(f=1), "multi_path", "causal", GREEDY),
    ],
)
def test_a_log_in_words_gives_a_policy_back(
    policy: Policy, name: str, encoder: str, search: Search
) -> None:
    early = False
    for seed in range(4):
        made = zoo.model(zoo.MECHANISMS[name], seed, encoder=encoder)
        source, mask = zoo.sentences(3, 7, seed)
        own = decode_by(policy, made, source, mask, search)
        lengths = mask.sum(1).tolist()
        rows = zip(source, lengths, own, strict=True)
        replays = [log_of(made, row[:length], one) for row, length, one in rows]
        assert decoder(search, replays)(made, source, mask) == own
        early |= any(replay.reads for replay in replays)
        row, length = source[0], lengths[0]
        stream, start = PolicyStream(made, replays[0], search), 0
        for read in words_of(made, row[:length]):
            stream.read_word(row[start : read.subwords].tolist())
            start = read.subwords
        assert stream.written == own[0]
        if early:
            return
    pytest.fail("all was written at the end")


def test_another_models_delays_are_kept() -> None:
    """Of any model, as far as the words of its drafts are finished; what is missing comes last."""
    made = zoo.model(zoo.MECHANISMS["mma_il"], 1)
    source, mask = zoo.sentences(3, 9)
    steps = [(1, 1, 3, 4), (2,), (99, 99)]
    found = decoder(GREEDY, [Replay((), each) for each in steps])(made, source, mask)
    for one, told, length in zip(found, steps, mask.sum(1).tolist(), strict=True):
        filled = [*(min(step, length) for step in told), *[length] * len(one.tokens)]
        assert one.delays == filled[: len(one.tokens)]
    bidirectional = zoo.model(zoo.MECHANISMS["soft"], encoder="bidirectional")
    with pytest.raises(UserError, match="unit=subword needs a causal encoder"):
        decoder(GREEDY, [Replay((), each) for each in steps])(bidirectional, source, mask)


def written(path: Path, lines: Sequence[dict], end: str = "\n") -> Path:
    text = end.join(map(json.dumps, lines)).encode()
    text = text if end == "\n" else b"[" + text + b"]"
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.json.gz"])
def test_three_forms_of_a_sentence_are_one(tmp_path: Path, name: str) -> None:
    sides = {"source": "x y", "prediction": "a b", "index": 1}
    forms = [
        sides | {"delays": [1, 2], "elapsed": [1.5, 2.5]},
        {"src": "x y", "tgt": "c", "hyp": "a b", "rw": [0, 1, 0, 1], "time": 0.1},
        {"instruction": "-", "input": "x y", "output": "a b", "policy": [1, 2]},
    ]
    end = "," if "l" not in name.partition(".")[2] else "\n"
    found = read_recorded(written(tmp_path / name, forms, end))
    assert {(one.source, one.target, one.reads) for one in found} == {("x y", "a b", (1, 2))}
    policy = FromFile(tmp_path / name)
    assert policy.on(["x  y"] * 3, words_alone) == [Replay((1,))] * 3, (
        "the second word waits for the end"
    )


def test_what_an_own_log_adds(tmp_path: Path) -> None:
    """A word may be written after the last source word, but before the end is known."""
    line = {"source": "x y", "prediction": "a b c", "delays": [1, 2, 2], "index": 0}
    own = line | {"subword_delays": [1, 2, 4, 5], "before_end": 2}
    path = written(tmp_path / "log", [own])
    assert FromFile(path).on(["x y"], words_alone) == [Replay((1, 2))]
    assert FromFile(path, "subword").on(["x y"], words_alone) == [Replay((), (1, 2, 4, 5))]
    assert not FromFile(path, "subword").beams
    assert FromFile(path).beams
    written(path, [line])
    with pytest.raises(UserError, match=r"sentence 1 has no subword_delays: .*unit=word"):
        FromFile(path, "subword").on(["x y"], words_alone)


def test_a_word_is_read_with_all_its_subwords(tmp_path: Path) -> None:
    """A model may take one word for several, or for none."""
    line = {"source": "x y z", "prediction": "a b c", "delays": [1, 2, 3], "before_end": 3}
    policy = FromFile(written(tmp_path / "log", [line]))
    assert policy.on(["x y z"], lambda _: WordMap([1, 1, 3])) == [Replay((2, 2, 3))]


def test_a_log_has_characters_unspaced(tmp_path: Path) -> None:
    """A text whose words are characters is spaced out once it is read; a log has it as written."""
    path = written(tmp_path / "log", [{"source": "你好吗", "prediction": "a b", "delays": [1, 3]}])
    assert FromFile(path).on(["你 好 吗"], words_alone) == [Replay((1,))]


def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path) -> None:
    line = {"input": "x y", "output": "a", "policy": [2]}
    path = tmp_path / "lists"
    for lines, said in (
        ([line], "has 1 sentences, the text 2"),
        ([line, line | {"input": "x z"}], "sentence 2: its source is 'x z', that of the "),
        ([line, {"input": "x y"}], "sentence 2: .*one of delays, policy and rw"),
        ([line, line | {"rw": [0, 1]}], "sentence 2: .*one of delays, policy and rw"),
        ([line, line | {"policy": [-1]}], r"sentence 2: policy.0: "),
    ):
        with pytest.raises(UserError, match=said) as error:
            FromFile(written(path, lines)).on(["x y"] * 2, words_alone)
        assert "\n" not in str(error.value)
    path.write_text("BLEU 30.1\n")
    with pytest.raises(UserError, match="Invalid JSON"):
        FromFile(path).on([], words_alone)
    with pytest.raises(UserError, match="cannot be read"):
        FromFile(tmp_path / "absent").on([], words_alone)
    whole = written(tmp_path / "a.json.gz", [line]).read_bytes()
    (tmp_path / "a.json.gz").write_bytes(whole[:12] + b"\xff" * 8 + whole[20:])
    with pytest.raises(UserError, match="is corrupt, or not compressed"):
        read_recorded(tmp_path / "a.json.gz")


def test_a_sentence_alone_has_no_number() -> None:
    made = zoo.model(zoo.MECHANISMS["soft"])
    with pytest.raises(UserError, match=r"use evaluate\.py"):
        PolicyStream(made, FromFile(Path("absent")))


def test_a_log_may_have_its_sentences_in_any_order(tmp_path: Path) -> None:
    rows = [{"index": n, "prediction": "a", "delays": [n + 1]} for n in (2, 0, 1)]
    (tmp_path / "log").write_text("\n".join(map(json.dumps, rows)))
    assert [one.reads for one in read_recorded(tmp_path / "log")] == [(1,), (2,), (3,)]
