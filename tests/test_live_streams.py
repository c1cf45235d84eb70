"""Live streams without sentence ends: what `translate sentences=model` tells and prints."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace

import pytest

import zoo
from simulmt.data.corpus import Split
from simulmt.data.subwords import Subwords
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.cuts import CUTS
from simulmt.decoding.document import DocumentStream
from simulmt.decoding.instance import Instance
from simulmt.decoding.search import GREEDY
from simulmt.decoding.stream_instance import Boundary
from simulmt.live.interpreter import END, Event, print_events, print_translation
from simulmt.live.stream import StreamTranslator, interpret_stream
from simulmt.models.model import Model
from simulmt.scoring import stream_decoder
from simulmt.scoring.split_decoder import SplitDecoder
from simulmt.scoring.stream_decoder import decode_streams, joined


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier limit: untrained models rarely end early."""
    zoo.limit_length(monkeypatch, lambda read: read + 2)


@cache
def documents() -> tuple[Subwords, Split]:
    """Subwords, and documents of twelve words, of one word, and of odd words."""
    split = verbfinal(1, 20, 200, 20).splits["valid"]
    subwords = Subwords.train(split.sample(), 200, "bpe")
    lines = [" ".join(line.split()[:6]) for line in split.sources[:2]]
    sources = [*lines, lines[0].split()[0], "日本 \u2047 x"]
    places = {"long": range(2), "short": range(2, 3), "odd": range(3, 4)}
    return subwords, Split(sources, [""] * len(sources), documents=places)


def a_model(mechanism: str, kind: str = "transformer", seed: int = 1) -> Model:
    vocabulary = documents()[0].vocabulary
    return zoo.model(zoo.options(mechanism), seed, kind, vocabulary=vocabulary, boundaries=True)


def told(model: Model, cut: str, words: Sequence[str]) -> list[Event]:
    translator = StreamTranslator(model, documents()[0], CUTS[cut])
    [*interpret_stream(translator, ["an", "earlier", "stream"])]
    return [*interpret_stream(translator, words)]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("mechanism", ["wait_k", "mma_il"])
def test_events_are_what_evaluate_decodes(mechanism: str, cut: str) -> None:
    subwords, split = documents()
    ends = 0
    for seed in range(2):
        model = a_model(mechanism, seed=seed)
        for found in decode_streams(model, SplitDecoder(split, subwords, 500, GREEDY), CUTS[cut]):
            words = found.text.split()
            events = told(model, cut, [*words[:5], END, *words[5:], END, END])
            written = [event for event in events if event.action == "WRITE"]
            assert [event.word for event in written] == found.prediction.split()
            assert tuple(event.read for event in written) == found.delays
            assert [e.word for e in events if e.action == "READ"] == words
            boundaries, count, split_at = list[Boundary](), 0, 0
            for event in events:
                count += event.action == "WRITE"
                if event.action == "END":
                    split_at += event.length
                    boundaries.append(Boundary(count, split_at, event.read))
            assert tuple(boundaries) == found.boundaries
            numbers = [event.sentence for event in events]
            assert numbers == sorted(numbers)
            ends += len(boundaries)
    assert ends > 6 or cut == "reading", "without ends inside of documents this says nothing"


@pytest.mark.parametrize("cut", CUTS)
def test_a_word_without_subwords_is_read_as_unknown(
    cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some SentencePiece models of Marian encode a word such as U+200B to nothing."""
    subwords, split = documents()
    model, silent = a_model("wait_k"), split.sources[0].split()[3]

    def streams(ids: list[int]) -> tuple[object, object]:
        def encode(own: Subwords, text: str) -> list[int]:
            return ids if text == silent else own.encode_target(text)

        with monkeypatch.context() as patch:
            patch.setattr(Subwords, "encode", encode)
            found = decode_streams(model, SplitDecoder(split, subwords, 500, GREEDY), CUTS[cut])
            return found, told(model, cut, found[0].text.split())

    found, events = streams([])
    assert (found, events) == streams([model.vocabulary.unk])
    assert all(one.boundaries[-1].split == len(one.text.split()) for one in found)


def test_a_text_is_read_word_by_word() -> None:
    subwords, split = documents()
    one, other = (StreamTranslator(a_model("mma_il"), subwords, CUTS["pointer"]) for _ in "ab")
    text = " ".join(split.sources)
    apart = [event for word in [*text.split(), None] for event in one.events(word)]
    assert [*other.events(text), *other.events(None)] == apart
    assert len({event.read for event in apart}) > 1


def test_a_word_is_told_once_it_is_complete_and_not_later() -> None:
    subwords, split = documents()
    model = a_model("mma_il")
    translator, written = StreamTranslator(model, subwords, CUTS["pointer"]), list[str]()
    mirror, ended, early = DocumentStream(model, CUTS["pointer"]), list[str](), 0
    for word in " ".join(split.sources).split():
        written += translator.read(word)
        open_words = subwords.decode(translator.stream.stream.written.tokens).split()
        mirror.read_word(subwords.encode(word))
        ended += [subwords.decode(each.written.tokens) for each in mirror.ended()]
        assert written == [*" ".join(ended).split(), *open_words[:-1]]
        assert translator.undecided == open_words[-1:]
        early += len(written)
    assert early


def test_lines_end_where_the_model_ends_sentences() -> None:
    events = [
        *(Event("READ", 1, "a", 1), Event("WRITE", 1, "A", 1), Event("READ", 1, "b", 2)),
        *(Event("WRITE", 1, "B", 2), Event("END", 1, read=2, length=1), Event("END", 2, read=2)),
    ]
    output = io.StringIO()
    print_translation(events, output)
    assert output.getvalue() == "A B\n\n"
    output = io.StringIO()
    print_events(events, output)
    last = [json.loads(line) for line in output.getvalue().splitlines()][-2]
    assert last.pop("seconds") >= 0
    assert last == {"sentence": 1, "action": "END", "read": 2, "length": 1}


def test_simuleval_gets_a_stream() -> None:
    """One line is a document; its words and delays are those of the events."""
    instances = pytest.importorskip("simuleval.evaluator.instance", reason="docs/simuleval.md")
    from simulmt.live.simuleval_agent import SimulmtAgent

    model, (subwords, split) = a_model("mma_il"), documents()
    agent = SimulmtAgent(SimpleNamespace(), StreamTranslator(model, subwords, CUTS["pointer"]))
    words = " ".join(split.sources).split()
    given = {"source": words, "target": "", "tgt_lang": None}
    instance = instances.TextToTextInstance(0, [given], SimpleNamespace(eval_latency_unit="word"))
    agent.reset()
    while not instance.finish_prediction:
        instance.receive_prediction(agent.pushpop(instance.send_source(1)))
    written = [event.word for event in told(model, "pointer", words) if event.action == "WRITE"]
    assert instance.prediction.split() == written


def test_told_sentences_go_on_where_the_one_before_ended() -> None:
    """Delays and boundaries count the source words of the whole document."""
    sources, said = ["a b", "c d e", "f"], [("A", (2,)), ("B C", (1, 3)), ("D", (1,))]
    split = Split(sources, [""] * 3, documents={"x": range(2), "y": range(2, 3)})
    rows = [
        Instance(n, source, "", text, delays)
        for n, (source, (text, delays)) in enumerate(zip(sources, said, strict=True))
    ]
    one, other = joined(split, rows)
    assert (one.source, one.prediction, one.text) == ("x", "A B C", "a b c d e")
    assert (one.delays, other.delays) == ((2, 3, 5), (1,))
    assert one.boundaries == (Boundary(1, 2, 2), Boundary(3, 5, 5))
    assert other.boundaries == (Boundary(1, 1, 1),)


def test_documents_do_not_depend_on_how_many_are_decoded_together(monkeypatch):
    zoo.limit_length(monkeypatch, lambda read: read + 2)
    lines = [" ".join(line.split()[:4]) for line in verbfinal(1, 0, 0, 5).splits["test"].sources]
    subwords = Subwords.train(lines * 4, 60, "bpe")
    split = Split(lines, [""] * 5, documents={str(n): range(n, n + 1) for n in range(5)})
    model = zoo.model(zoo.options("wait_k"), 1, vocabulary=subwords.vocabulary, boundaries=True)
    given = model, SplitDecoder(split, subwords, 500, GREEDY), CUTS["pointer"]
    whole = stream_decoder.decode_streams(*given)
    assert all(one.prediction for one in whole)
    monkeypatch.setattr(stream_decoder, "_TOGETHER", 2)
    assert stream_decoder.decode_streams(*given) == whole
