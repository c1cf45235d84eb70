"""The history of a stream: teacher forcing and streaming see the same past."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import zoo
from simulmt.attention import Past
from simulmt.data.subwords import Subwords
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.by_policy import PolicyStream
from simulmt.decoding.document import DocumentStream
from simulmt.decoding.history import Before, held, past_of
from simulmt.decoding.policies import HoldN, LocalAgreement
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import GREEDY, Search
from simulmt.errors import UserError
from simulmt.models.model import Model
from simulmt.scoring.history_decoder import decode_after
from simulmt.scoring.split_decoder import SplitDecoder

CLOCKS = ["soft", "wait_k", "wait_info", "multi_path"]
LENGTHS = ((5, 7), (0, 0), (9, 4))
"""Tokens of the past of each sentence, of source and target."""


def tokens(count: int, length: int, seed: int) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randint(4, zoo.VOCABULARY, (count, length), generator=rng)


def padded(rows: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, rows))
    mask = torch.tensor([[n >= longest - len(row) for n in range(longest)] for row in rows])
    return torch.stack([torch.cat([row.new_zeros(longest - len(row)), row]) for row in rows]), mask


def pasts() -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(tokens(1, s, n)[0], tokens(1, t, 9 + n)[0]) for n, (s, t) in enumerate(LENGTHS)]


def the_past(rows: list[tuple[torch.Tensor, torch.Tensor]]) -> Past:
    return Past(*padded([row[0] for row in rows]), *padded([row[1] for row in rows]))


def sentences() -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.cat([tokens(3, 6, 77), torch.full((3, 1), zoo.EOS)], 1)
    return source, torch.cat([torch.full((3, 1), zoo.BOS), tokens(3, 8, 78)], 1)


def a_model(mechanism: str) -> Model:
    return zoo.model(zoo.options(mechanism), 0, history=20, encoder="causal")


@pytest.mark.parametrize("mechanism", CLOCKS)
@torch.inference_mode()
def test_streaming_sees_what_training_sees(mechanism: str) -> None:
    """States and logits are those of a batch with padded pasts; float64 up to rounding."""
    model, (source, target) = a_model(mechanism), sentences()
    encoded = model.encode(source, torch.ones_like(source).bool(), the_past(pasts()))
    logits = model.decode(encoded, target).logits
    for row, past in enumerate(pasts()):
        own = the_past([past])
        _, state = model.encode_next(own.source, None) if len(past[0]) else (None, None)
        read, _ = model.encode_next(source[[row]], state)
        torch.testing.assert_close(read.states, encoded.states[[row]], rtol=0, atol=1e-12)
        decoder = model.start(read._replace(past=own if len(past[0]) else None))
        for place, token in enumerate(target[row]):
            step = model.step(token[None], decoder)
            torch.testing.assert_close(step.logits[0], logits[row, place], rtol=0, atol=1e-10)
            decoder = step.state


@torch.inference_mode()
def test_the_past_changes_the_translation() -> None:
    model, (source, target) = a_model("soft"), sentences()
    mask = torch.ones_like(source).bool()
    with_past = model.decode(model.encode(source, mask, the_past(pasts())), target).logits
    without = model(source, mask, target).logits
    same = (with_past - without).abs().amax((1, 2)) < 1e-10
    assert same.tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        ("soft", {"encoder": "bidirectional"}),
        ("soft", {"encoder": "by_word"}),
        ("wait_k", {"encoder": "reencoding"}),
        ("mma_il", {"average_embedding": True}),
        ("hmt", {}),
    ],
)
def test_a_model_that_sees_no_past_is_rejected(mechanism: str, options: dict[str, object]) -> None:
    with pytest.raises(UserError, match="history=5 needs model"):
        zoo.model(zoo.options(mechanism), 0, history=5, **options)


DOCUMENTS = {"a": range(5), "b": range(5, 6), "c": range(6, 12)}
SPLIT = replace(verbfinal(3, 0, 0, 12).splits["test"], documents=DOCUMENTS)
SUBWORDS = Subwords.train([*SPLIT.sources, *SPLIT.targets], 150)
ALL = SplitDecoder(SPLIT, SUBWORDS, 500, GREEDY)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Model:
    """A model that writes no EOS, so no sentence ends before its source; its limit is short."""
    zoo.limit_length(monkeypatch, lambda read: read + 3)
    options = {"encoder": "causal", "vocabulary": SUBWORDS.vocabulary, "output_bias": True}
    model = zoo.model(zoo.options("wait_k"), 0, history=80, **options).eval()
    model.output_bias.data[model.vocabulary.eos] = -1e9
    return model


def arriving(place: int) -> list[list[int]]:
    """The subwords of each word of a sentence, and EOS."""
    words = SPLIT.sources[place].split()
    return [*map(SUBWORDS.encode, words), [SUBWORDS.vocabulary.eos]]


def test_a_told_document_is_the_stream_and_its_history_as_context_too(made: Model) -> None:
    decoded = decode_after(made, ALL)
    context = list[list[Before]]()
    for places in SPLIT.documents.values():
        stream = DocumentStream(made, lambda _, words, *rest: len(words))
        before, start = list[Before](), 0
        for place in places:
            for word in arriving(place):
                stream.read_word(word)
            (segment,) = stream.ended()
            tokens = segment.written.tokens
            ends = SUBWORDS.words_touched(tokens).ends
            assert decoded[place].prediction == SUBWORDS.decode(tokens)
            delays = [segment.written.delays[end - 1] - start for end in ends]
            assert [*decoded[place].delays] == delays
            context.append([*before])
            before.append(Before([token for word in segment.words for token in word], tokens))
            start += len(segment.words)
    assert decode_after(made, ALL, context) == decoded


def test_a_policy_sees_the_history(made: Model) -> None:
    policy = HoldN(n=1)
    decoded = decode_after(made, replace(ALL, policy=policy))
    for places in SPLIT.documents.values():
        before = list[Before]()
        for place in places:
            stream = PolicyStream(made, policy, past=past_of(made, held(made, before)))
            for word in arriving(place):
                stream.read_word(word)
            assert decoded[place].prediction == SUBWORDS.decode(stream.written.tokens)
            source = [token for word in arriving(place)[:-1] for token in word]
            assert [*decoded[place].subword_delays] == [*stream.written.delays]
            before.append(Before(source, stream.written.tokens))


@pytest.mark.parametrize(
    ("name", "policy", "search"),
    [
        ("soft", HoldN(n=1), GREEDY),
        ("soft", LocalAgreement(n=2), Search(3, 0.6)),
        ("wait_k", HoldN(n=1), GREEDY),
    ],
)
def test_drafts_after_unlike_histories_are_those_of_each_alone(
    name: str, policy: Policy, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    zoo.limit_length(monkeypatch, lambda read: read // 2 + 6)
    for seed in range(4):
        model = zoo.model(zoo.options(name), seed, history=60, encoder="causal")
        model.embedding.weight.data *= 0.3  # so that what it sees tells more than the last word
        sides = [[tokens(1, n, seed + n)[0].tolist() for n in two] for two in ((3, 2), (9, 14))]
        past = [None, *(past_of(model, [Before(*two)]) for two in sides)]
        one, other = ([PolicyStream(model, policy, search, past=p) for p in past] for _ in "ab")
        units = [tokens(len(past), 1 + n % 2, n + seed).tolist() for n in range(5)]
        for words in (*units, [[zoo.EOS]] * len(past)):
            PolicyStream.read_words(one, words)
            for stream, word in zip(other, words, strict=True):
                stream.read_word(word)
            assert [stream.written for stream in one] == [stream.written for stream in other]


@pytest.mark.parametrize("policy", [None, HoldN(n=1)])
def test_an_empty_context_changes_nothing_and_a_name_does(made: Model, policy) -> None:
    alone = replace(ALL, policy=policy)
    plain = alone(made)
    assert decode_after(made, alone, [[]] * len(SPLIT)) == plain
    for name in (Before([7, 9]), Before([7, 9], [8]), Before([], [8, 9])):  # source, both, target
        assert decode_after(made, alone, [[name]] * len(SPLIT)) != plain


def test_the_newest_whole_sentences_are_held() -> None:
    model = a_model("wait_k")  # 20 tokens
    sentences = [Before([5] * n, [6] * m) for n, m in ((2, 2), (9, 9), (9, 8))]
    assert held(model, sentences) == sentences[1:]  # translations of 9 and 8, each with EOS: 19
    assert held(model, [*sentences, Before([5] * 3)]) == [*sentences[2:], Before([5] * 3)]
    assert held(model, [*sentences, Before([5] * 21)]) == []
    assert past_of(model, []) is None
    assert past_of(model, sentences[1:]).target[0].tolist() == [
        *[6] * 9,
        zoo.EOS,
        *[6] * 8,
        zoo.EOS,
    ]


@pytest.mark.parametrize("training", [True, False])
def test_a_split_is_decoded_without_dropout_and_in_its_mode(training: bool, monkeypatch) -> None:
    zoo.limit_length(monkeypatch, lambda read: read + 3)
    split = verbfinal(3, 0, 0, 6).splits["test"]
    subwords = Subwords.train([*split.sources, *split.targets], 120)
    model = zoo.model(zoo.options("wait_k"), vocabulary=subwords.vocabulary, dropout=0.5)
    decoder = SplitDecoder(split, subwords, 500, GREEDY)
    expected = decoder(model.eval())
    torch.manual_seed(0)
    assert decoder(model.train(training)) == expected
    assert model.training == training
