"""The server: its limits, and what it survives."""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
from contextlib import suppress
from dataclasses import replace

import pytest
from starlette.websockets import WebSocket
from websockets.exceptions import ConnectionClosed

from serving import LIMITS, SENTENCES, running, setting, untimed
from simulmt.data.text import normalise
from simulmt.live import translator
from simulmt.serve import sessions
from small_runs import soon


def test_a_long_sentence_is_ended_and_another_begins(run):
    with running([run], limits=replace(LIMITS, words=3)) as at:
        client = at.client()
        steps = client.sentence("eins zwei drei vier")
        assert [(s["sentence"], s["word"], s["ended"]) for s in steps] == [
            (1, "eins", ""), (1, "zwei", ""), (1, "drei", ""), (1, "", "long"),
        ]  # fmt: skip
        assert client.until(lambda message: message.get("ended"))[0]["sentence"] == 2


def test_a_full_server_says_so_and_those_who_leave_make_room(run):
    with running([run], limits=replace(LIMITS, sessions=2)) as at:
        first, second = at.client(), at.client()
        late = at.client()
        assert late.greeting["type"] == "closed"
        assert "all 2 sessions are taken" in late.greeting["text"]
        with pytest.raises(ConnectionClosed):
            late.get()
        first.connection.socket.close()  # without a goodbye, as a network does
        assert soon(lambda: len(at.sessions.open) == 1)
        assert at.client().sentence("wir gehen .")[-1]["ended"] == "end"
        assert second.sentence("wir gehen .")[-1]["ended"] == "end"


# a thousand malformed messages


def malformed(draw: random.Random) -> str | bytes:
    """A message that is none, or has wrong values."""
    value = draw.choice(
        [None, True, -1, 10**400, 1e308, 0.5, "", "\ud800", "x" * 300, [], [[]], {}, {"a": {}},
         "<script>alert(1)</script>", "\x00", [1] * 50]
    )  # fmt: skip
    kind = draw.choice(["words", "panes", "end", "step", "", None, 7, [], {}])
    key = draw.choice(["text", "panes", "model", "type", "", "__class__"])
    pane = {"model": value, "policy": "own", "options": {}, "dials": {}}
    whole = draw.choice(
        [
            {"type": kind, key: value},
            {"type": "panes", "panes": [pane]},
            {"type": "panes", "panes": [value] * draw.randint(0, 5)},
            {"type": "words", "text": value, "more": value},
            value,
        ]
    )
    text = json.dumps(whole)
    damage = draw.random()
    if damage < 0.2:
        place = draw.randrange(len(text) + 1)
        text = text[:place] + draw.choice(["", "{", "]", '"', "\\", "NaN"]) + text[place + 1 :]
    if damage > 0.95:
        return bytes(draw.randrange(256) for _ in range(draw.randint(0, 50)))
    return "[" * 5000 if 0.9 < damage < 0.92 else text


@pytest.mark.parametrize("messages", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_malformed_messages_do_nothing(run, messages, capfd):
    draw = random.Random(1)
    with running([run]) as at:
        busy, done = at.client(), 0
        before = untimed(busy.sentence(SENTENCES[1]))
        while done < messages:
            client = at.client()
            with suppress(ConnectionClosed):
                while done < messages:
                    client.connection.send(malformed(draw))
                    done += 1
                    client.say("panes", panes=[setting("nonsense")])  # always answered
                    client.until(lambda message: message["type"] in ("notice", "closed"))
            client.close()
        after = untimed(busy.sentence(SENTENCES[1]))
        assert [step["panes"] for step in after] == [step["panes"] for step in before]
        assert re.findall("^.* error .*$", at.log.getvalue(), re.MULTILINE) == []
    assert "Traceback" not in "".join(capfd.readouterr())


def test_text_is_split_and_cut_before_it_is_normalised_and_not_on_the_loop(at, monkeypatch):
    """The time of Unicode's normalisation grows with the square of a run of combining marks."""
    given, client = [], at.client()

    def watched(text):
        given.append((len(text), threading.get_ident()))
        return normalise(text)

    for module in (translator, sessions):
        monkeypatch.setattr(module, "normalise", watched, raising=False)
    marks = "a" + "\u0301\u0316" * 600
    steps = client.sentence(f"{marks} ▁cafe\u0301▁")
    assert [step["read"] for step in steps][-1] == 14
    assert max(length for length, _ in given) == 100
    assert ident_of(at.loop) not in {thread for _, thread in given}
    assert "café" in at.log.getvalue()


def ident_of(loop) -> int:
    async def ident() -> int:
        return threading.get_ident()

    return asyncio.run_coroutine_threadsafe(ident(), loop).result(10)


# those who leave, and those who do not read


def test_a_slow_reader_is_closed_with_a_reason_and_delays_nobody(run, monkeypatch):
    monkeypatch.setattr(sessions, "UNSENT", 2)
    send, slow, gate = WebSocket.send_text, [], threading.Event()

    async def send_slowly(websocket, text):
        slow.append(websocket)
        while websocket is slow[0] and text.startswith('{"sentence"') and not gate.is_set():
            await asyncio.sleep(0.01)
        await send(websocket, text)

    monkeypatch.setattr(WebSocket, "send_text", send_slowly)
    with running([run], limits=replace(LIMITS, waiting=5)) as at:
        client = at.client()
        session = client.session
        for told in range(12):  # one is being sent, and the others wait
            client.say("words", text="das")
            assert soon(lambda told=told: session.over or session.unsent.qsize() >= told)
        client.say("words", text="das das das")
        assert soon(lambda: "too slow" in session.over)
        assert at.client().sentence("wir gehen .")[-1]["ended"] == "end"
        gate.set()
        last = client.until(lambda message: message["type"] == "closed")[-1]
        assert "too slow" in last["text"]
        with pytest.raises(ConnectionClosed):
            client.get()


def test_a_pasted_book_delays_nobody(at, monkeypatch):
    """In each round every session that has a word has one read."""
    gate, rounds, read = threading.Event(), [], sessions.read_words
    book, other = at.client(), at.client()

    def held(turns):
        gate.wait(20)
        rounds.append(len(turns))
        return read(turns)

    monkeypatch.setattr(sessions, "read_words", held)
    book.say("words", text="das " * 30)
    assert soon(lambda: book.session.waiting.qsize() == 29)
    other.say("words", text="wir gehen .")
    other.say("end")
    assert soon(lambda: other.session.waiting.qsize() == 3)
    gate.set()
    other.until(lambda message: message.get("ended"))
    assert [book.get()["read"] for _ in range(30)] == [*range(1, 31)]
    assert rounds == [1, 2, 2, 2, 2, *[1] * 25]
