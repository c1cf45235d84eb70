"""The server: its limits, and what it survives."""

from __future__ import annotations

import io
import json
import random
import re
import socket
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from starlette.websockets import WebSocketDisconnect
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from serving import (
    LIMITS,
    SENTENCES,
    running,
    soon,
    untimed,
)
from simulmt.serve import conversation, limits, session, sessions
from simulmt.serve.events import Notice, Welcome
from simulmt.serve.journal import Journal
from simulmt.serve.limits import FAULTS
from simulmt.serve.messages import MalformedError, Words, parse
from simulmt.serve.session import Session


def test_a_long_sentence_is_ended_and_another_begins(run):
    with running([run], limits=replace(LIMITS, words=3)) as at:
        client = at.client()
        steps = client.sentence("eins zwei drei vier")
        assert [(s["sentence"], s["word"], s["ended"]) for s in steps] == [
            (1, "eins", ""), (1, "zwei", ""), (1, "drei", ""), (1, "", "long"),
        ]  # fmt: skip
        assert client.until(lambda message: message.get("ended"))[0]["sentence"] == 2


def test_a_long_word_is_cut():
    session = Session(1, None, LIMITS, lambda: None)
    session.hear(Words("ein " + "ä" * 2500))
    assert [len(turn.word) for turn in session.waiting] == [3, *[100] * 25]


def test_a_full_disk_ends_no_session():
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    Journal(output=Full()).write("began", session=1)


def test_a_session_that_is_being_told_something_is_not_idle(monkeypatch):
    session = Session(1, None, LIMITS, lambda: None)
    monkeypatch.setattr(time, "monotonic", lambda: 1e9)
    session.tell(Notice("a word takes long"))
    assert session.touched == 1e9


def test_a_connection_that_is_lost_in_the_greeting_leaves_its_session(run, monkeypatch):
    def lost(welcome: Welcome) -> str:
        raise WebSocketDisconnect

    with running([run], limits=replace(LIMITS, sessions=1)) as at:
        with monkeypatch.context() as broken:
            broken.setattr(conversation, "welcome_text", lost)
            with pytest.raises(ConnectionClosed):
                at.client()
        assert at.client().sentence("wir gehen")  # the lost one has made room


def test_more_words_than_may_wait_are_refused_whole(run):
    with running([run], limits=replace(LIMITS, waiting=5)) as at:
        client = at.client()
        client.say("words", text="a b c d e f")
        answer = client.get()
        assert (answer["type"], "5 may" in answer["text"]) == ("fault", True)
        assert client.sentence("a b c d")[-1]["read"] == 4


def test_a_large_message_ends_the_connection_and_no_more(at):
    client = at.client()
    client.say("words", text="x" * 20_000)
    with pytest.raises(ConnectionClosed):
        client.get()
    again = at.client(token=client.greeting["token"])
    assert again.greeting["resumed"]
    again.close()


def test_there_is_room_for_so_many_sessions_and_vanished_ones_make_room(run):
    with running([run], limits=replace(LIMITS, sessions=2)) as at:
        first, second = at.client(), at.client()
        assert "all 2 sessions are taken" in at.client().greeting["text"]
        first.close()
        assert soon(lambda: any(s.connection is None for s in at.sessions._by_token.values()))
        third = at.client()
        assert third.greeting["type"] == "welcome"
        assert not at.client(token=first.greeting["token"]).greeting.get("resumed")
        assert second.sentence("wir gehen .")[-1]["ended"] == "end"


def test_an_idle_session_ends(run):
    with running([run], limits=replace(LIMITS, idle=1)) as at:
        client = at.client()
        assert client.get()["text"] == "no word for 1 seconds"
        assert len(at.sessions) == 0


def test_a_connection_says_hello_first(at):
    for first in ({"type": "end"}, {"type": "hello", "version": 2}, {"type": "hello"}):
        with connect(at.socket, origin=at.origin, proxy=None) as connection:
            connection.send(json.dumps(first))
            assert json.loads(connection.recv(10))["type"] == "refused"


def test_silent_connections_keep_nobody_out_for_long(run, monkeypatch):
    monkeypatch.setattr(limits, "HTTP_SECONDS", 0.5)
    with running([run], limits=replace(LIMITS, sessions=1)) as at, ExitStack() as opened:
        place = urlsplit(at.url)
        silent = [
            opened.enter_context(socket.create_connection((place.hostname, place.port)))
            for _ in range(60)
        ]
        slow = silent[0]
        slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP")
        for one in silent[1:]:
            one.settimeout(20)
            with suppress(ConnectionResetError):
                assert one.recv(1) == b""
        client = at.client()
        time.sleep(1)  # a session's connection stays
        assert client.sentence("wir gehen .")[-1]["ended"] == "end"


def test_so_many_malformed_messages_end_a_connection(client):
    for _ in range(FAULTS):
        client.say("nonsense")
    answers = client.until(lambda message: message["type"] == "refused")
    assert len(answers) == FAULTS + 1
    with pytest.raises(ConnectionClosed):
        client.get()


# a thousand malformed messages


def malformed(draw: random.Random) -> str | bytes:
    """A message that is none, or has wrong values."""
    value = draw.choice(
        [None, True, -1, 10**400, 1e308, 0.5, "", "\ud800", "x" * 300, [], [[]], {}, {"a": {}},
         "<script>alert(1)</script>", "\x00", [1] * 50]
    )  # fmt: skip
    kind = draw.choice(["hello", "words", "seen", "panes", "end", "step", "", None, 7, [], {}])
    key = draw.choice(["text", "number", "panes", "version", "token", "seen", "", "__class__"])
    pane = {"model": value, "policy": "own", "options": {}, "dials": {}}
    whole = draw.choice(
        [
            {"type": kind, key: value},
            {"type": "panes", "panes": [pane]},
            {"type": "panes", "panes": [value] * draw.randint(0, 5)},
            {"type": "words", "text": value, "more": value},
            {"type": "seen", "number": draw.randint(10**6, 10**8)},
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


def test_a_thousand_malformed_messages_do_nothing(run, capfd):
    draw = random.Random(1)
    with running([run]) as at:
        busy, done = at.client(), 0
        before = untimed(busy.sentence(SENTENCES[1]))
        while done < 1000:
            client = at.client()
            with suppress(ConnectionClosed):
                while done < 1000:
                    client.connection.send(malformed(draw))
                    done += 1
                    while client.get(5)["type"] not in ("fault", "notice", "refused"):
                        pass  # what was no mistake after all
            client.close()
        after = untimed(busy.sentence(SENTENCES[1]))
        assert [step["panes"] for step in after] == [step["panes"] for step in before]
        assert re.findall("^.* error .*$", at.log.getvalue(), re.MULTILINE) == []
    assert "Traceback" not in "".join(capfd.readouterr())


def test_a_message_is_what_it_says():
    assert parse('{"type": "words", "text": "ein Mann"}') == Words("ein Mann")
    for text in ('{"type": "words", "text": "\\ud800"}', '{"type": "words"}', "[" * 10_000, "1"):
        with pytest.raises(MalformedError):
            parse(text)


# those who come back, and those who do not read


def test_a_client_that_comes_back_gets_what_it_missed_and_goes_on(at):
    whole = at.client()
    expected = untimed(whole.sentence(SENTENCES[1]))
    words = SENTENCES[1].split()
    client = at.client()
    client.say("words", text=" ".join(words[:3]))
    got = [client.get()]
    client.connection.socket.close()  # without a word, as a network does
    client = at.client(token=client.greeting["token"], seen=got[-1]["n"])
    assert client.greeting["resumed"]
    client.say("words", text=" ".join(words[3:]))
    client.say("end")
    got += client.until(lambda message: message.get("ended"))
    assert untimed(got) == expected


def test_a_client_that_comes_back_knows_what_was_heard(at):
    """Malformed messages count, and confirmations do not."""
    client = at.client()
    client.say("words", text="wir gehen")
    client.say("seen", number=0)
    client.say("nonsense")
    assert client.until(lambda message: message["type"] == "fault")
    client.connection.socket.close()
    client = at.client(token=client.greeting["token"])
    assert client.greeting["heard"] == 2


def test_a_token_that_is_not_known_begins_another_session(at):
    client = at.client(token="guess", seen=7)
    assert (client.greeting["resumed"], len(client.greeting["token"])) == (False, 32)
    assert client.sentence("wir gehen .")[0]["n"] == 1


def test_a_second_connection_takes_the_place_of_the_first(at):
    first = at.client()
    second = at.client(token=first.greeting["token"])
    assert first.get()["text"] == "another connection has taken over this session"
    assert second.sentence("wir gehen .")[-1]["ended"] == "end"


def test_a_client_cannot_confirm_what_it_has_not_got(client):
    client.say("seen", number=1)
    assert client.get()["type"] == "fault"


def test_a_slow_reader_waits_for_itself_alone(run, monkeypatch):
    """It confirms nothing, so its session stops; the others go on."""
    monkeypatch.setattr(session, "UNSEEN", 12)
    with running([run]) as at:
        slow, other = at.client(), at.client()
        slow.say("words", text=" ".join(["das"] * 20))
        kept = at.session(slow)
        assert soon(lambda: kept.last == 12)
        assert other.sentence("wir gehen .")[-1]["ended"] == "end"
        assert (kept.last, len(kept.waiting)) == (12, 8)
        slow.say("seen", number=10)
        assert soon(lambda: kept.last == 20)


def test_a_pasted_book_delays_nobody(at, monkeypatch):
    """In each round every session that has a word has one read."""
    gate, rounds, play = threading.Event(), [], sessions.play

    def held(items):
        gate.wait(20)
        rounds.append(len(items))
        return play(items)

    monkeypatch.setattr(sessions, "play", held)
    book, other = at.client(), at.client()
    book.say("words", text="das " * 30)
    assert soon(lambda: len(at.session(book).waiting) == 29)
    other.say("words", text="wir gehen .")
    other.say("end")
    assert soon(lambda: len(at.session(other).waiting) == 4)
    gate.set()
    other.until(lambda message: message.get("ended"))
    assert soon(lambda: at.session(book).last == 30)
    assert rounds == [1, 2, 2, 2, 2, *[1] * 25]
