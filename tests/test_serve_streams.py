"""The server with sentences=model: a session is one stream."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import zoo
from serving import LIMITS, Running, lag_of, running, setting
from simulmt.decoding.cuts import CUTS
from simulmt.errors import UserError
from simulmt.live.interpreter import Event
from simulmt.live.stream import StreamTranslator, interpret_stream
from simulmt.live.translator import Translator
from simulmt.parts.builders import build_policy
from simulmt.saved import checkpoint
from simulmt.serve import panes as serve_panes
from simulmt.serve.messages import Setting
from simulmt.serve.stream_pane import StreamPane
from small_runs import configuration

DOCUMENTS = ["mechanism=wait_k", "data.documents=true", "model.boundaries=true"]
AGREES = Setting(0, "local_agreement", {"n": 2})
TEXT = """Anna kauft das Buch im Garten Peter hat den Brief gelesen die alte Frau schläft heute
der Mann will morgen ein Haus sehen weil er die Katze sucht"""
WORDS = TEXT.split()


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier limits: untrained models rarely end early."""
    zoo.limit_length(monkeypatch, lambda read: read // 2 + 2)


@pytest.fixture(scope="module")
def run(trained_once) -> Path:
    return trained_once(*DOCUMENTS)


@pytest.fixture(scope="module")
def at(run):
    with running([run], cut="pointer") as server:
        yield server


def interpreted(
    run: Path, words: Sequence[str], policy: str = "own", **dials: float
) -> list[Event]:
    """The events of a stream that is translated by itself."""
    options = AGREES.options if policy == AGREES.policy else {}
    one = Translator.of(
        checkpoint.load(run), "cpu", build_policy({"name": policy, **options}), dials
    )
    stream = StreamTranslator(one.model, one.subwords, CUTS["pointer"], one.policy)
    return [*interpret_stream(stream, words)]


def written(events: Sequence[Event]) -> list[tuple[str, int]]:
    return [(event.word, event.read) for event in events if event.action == "WRITE"]


def ends(events: Sequence[Event]) -> list[tuple[int, int, int]]:
    """The number of each sentence, the words written before its end, and its length."""
    count, found = 0, []
    for event in events:
        count += event.action == "WRITE"
        if event.action == "END":
            found.append((event.sentence, count, event.length))
    return found


def told(steps: Sequence[dict[str, Any]], pane: int = 0) -> tuple[list[Any], list[Any]]:
    """The same of what a client is told."""
    words, found = list[tuple[str, int]](), list[tuple[int, int, int]]()
    for step in steps:
        own = step["panes"][pane]
        for end in own["ends"]:
            place = len(words) + end["written"]
            found.append((end["sentence"], place, end["length"]))
        words += [(word["text"], word["delay"]) for word in own["words"]]
    return words, found


def stream(client, words: Sequence[str]) -> list[dict[str, Any]]:
    client.say("words", text="\n".join(words))
    client.say("end")
    return client.until(lambda message: message.get("ended"))


@pytest.mark.parametrize("other", [setting(), setting("local_agreement", n=2)])
def test_words_delays_and_ends_are_those_of_the_stream(run, at, other) -> None:
    """Also with several sessions at once, and in both panes."""
    clients, count = [at.client(), at.client()], 0
    assert clients[0].greeting["sentences"] == "model"
    for client in clients:
        client.say("panes", panes=[setting(), other])
        client.get()
    words = WORDS[:18]
    for number, client in enumerate(clients):
        client.say("words", text=" ".join(words[number:]))
        client.say("end")
    for number, client in enumerate(clients):
        steps = client.until(lambda message: message.get("ended"))
        assert [step["word"] for step in steps] == [*words[number:], ""]
        for pane, policy in enumerate(["own", other["policy"]]):
            alone = interpreted(run, words[number:], policy)
            assert told(steps, pane) == (written(alone), ends(alone))
            count += len(ends(alone)) - 1
            heads = [word["heads"] for step in steps for word in step["panes"][pane]["words"]]
            assert all(0 <= place <= len(words) + 1 for word in heads for place in word)
        client.close()
    assert count, "without ends inside of streams this says nothing"


def test_lag_is_of_the_open_sentence(at) -> None:
    client, begin, delays = at.client(), 0, list[int]()
    for step in stream(client, WORDS):
        (own,) = step["panes"]
        new, start = [word["delay"] for word in own["words"]], 0
        for end in own["ends"]:
            begin, start, delays = begin + end["length"], end["written"], []
        delays += new[start:]
        if delays:
            lag = lag_of([delay - begin for delay in delays], step["read"] - begin)
            assert own["lag"] == round(lag, 2)
        else:
            assert own["lag"] is None
    client.close()


def test_the_client_of_lines_ends_their_sentences(run) -> None:
    with running([run]) as lines:
        client = lines.client()
        assert client.greeting["sentences"] == "client"
        steps = client.sentence("wir gehen .")
        assert {*steps[0]} == {"sentence", "read", "word", "panes", "ended", "type"}
        assert all(step["panes"][0]["ends"] is None for step in steps)


def test_a_failure_ends_the_sentence_and_the_next_word_begins_another(run, at, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no memory")

    client, start = at.client(), len(at.log.getvalue())
    client.say("words", text=" ".join(WORDS[:7]))
    before = [client.get() for _ in range(7)]
    with monkeypatch.context() as patch:
        patch.setattr(serve_panes, "advance", fail)
        client.say("words", text=WORDS[7])
        before.append(client.get())
    (failed,) = before[-1]["panes"]
    assert failed["failed"]
    assert not failed["words"]
    (open_words,) = (end["length"] for end in failed["ends"])
    lengths = [end[2] for end in told(before)[1]]
    assert sum(lengths) == 8
    assert lengths[-1] == open_words
    rest = stream(client, WORDS[8:])
    assert not any(step["panes"][0]["failed"] for step in rest)
    alone = interpreted(run, WORDS[8:])
    words, found = told(rest)
    assert words == [(word, 8 + read) for word, read in written(alone)]
    assert [end[1:] for end in found] == [end[1:] for end in ends(alone)]
    numbers = [end[0] for end in told([*before, *rest])[1]]
    assert numbers == [*range(1, len(numbers) + 1)]
    log = at.log.getvalue()[start:]
    assert len(re.findall(r"^error .*test_serve_streams.py, line", log, re.M)) == 1
    sources = re.findall(r"source='(.*?)'", log)
    assert " ".join(sources).split() == WORDS
    client.close()


def test_other_panes_end_the_stream_and_begin_another(run, at) -> None:
    client = at.client()
    client.say("words", text=" ".join(WORDS[:5]))
    client.say("panes", panes=[setting("local_agreement", n=2)])
    first = client.until(lambda message: message.get("ended"))
    assert first[-1]["ended"] == "panes"
    alone = interpreted(run, WORDS[:5])
    assert told(first) == (written(alone), ends(alone))
    assert client.get()["panes"][0]["policy"] == "local_agreement"
    client.say("panes", panes=[setting("retranslation")])
    assert "takes words back" in client.get()["text"]
    second = stream(client, WORDS)
    assert {step["sentence"] for step in second} == {2}
    assert [step["read"] for step in second][:-1] == [*range(1, len(WORDS) + 1)]
    client.close()


def test_nothing_of_ended_sentences_is_kept_and_a_stream_may_be_long(run) -> None:
    with running([run], limits=replace(LIMITS, words=3), cut="pointer") as server:
        client = server.client()
        client.say("words", text=" ".join(WORDS * 7))
        steps = [client.get() for _ in WORDS * 7]
        assert not any(step["ended"] for step in steps)
        words, found = told(steps)
        read = sum(end[2] for end in found)
        (pane,) = open_panes(server)
        assert len(pane.source) == len(pane.translator.stream.words) == len(steps) - read < 100
        assert len(pane.words) == len(pane.delays) == len(words) - found[-1][1]
        assert len(pane.translator._lengths) == len(pane.source)


def open_panes(server: Running) -> Sequence[StreamPane]:
    (session,) = server.sessions.open
    return session._panes  # what a session holds is not told


def test_policies_that_end_no_sentences_are_not_offered(at) -> None:
    client = at.client()
    (model,) = client.greeting["models"]
    possible = {policy["name"]: policy["possible"] for policy in model["policies"]}
    assert possible["own"]
    assert possible["local_agreement"]
    assert not possible["retranslation"]
    client.close()


@pytest.mark.parametrize(
    ("chosen", "sentences", "why"),
    [
        (["mechanism=soft"], "model", "sentences=model: soft reads the whole source first"),
        (["mechanism=multi_path"], "model", "cut=pointer: the model was trained with model.bound"),
        (["mechanism=multi_path"], "lines cut=reading", "cut=reading has no effect without sent"),
    ],
)
def test_a_model_that_ends_no_sentences_is_rejected_at_the_start(
    trained_once, chosen, sentences, why
) -> None:
    from simulmt.programs.serve import serve

    run = trained_once(*chosen)
    chosen = configuration(
        "serve", f"checkpoint={run}", "port=0", *f"sentences={sentences}".split()
    )
    with pytest.raises(UserError, match=re.escape(why)):
        serve(chosen)
