"""The server: what it says, to whom, within which limits, and what it survives."""

from __future__ import annotations

import http.client
import json
import random
import re
import signal
import subprocess
import sys
import threading
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from serving import LIMITS, Client, Running, running, soon
from simulmt.decoding.instance import read_instances
from simulmt.errors import UserError
from simulmt.latency import average_lagging
from simulmt.page import FILES
from simulmt.programs.offers import policy_offers
from simulmt.saved import checkpoint
from simulmt.serve import interpretation, session, sessions
from simulmt.serve.limits import FAULTS
from simulmt.serve.messages import MalformedError, Setting, Words, parse
from simulmt.serve.models import Served, own
from simulmt.serve.session import Session
from small_runs import LONGER, ROOT

SENTENCES = ["der Mann schläft .", "morgen liest die alte Frau ein Buch .", "wir gehen ."]
RETRANSLATION = Setting(0, "retranslation", {}, {})


@pytest.fixture(scope="module")
def run(trained_once) -> Path:
    return trained_once(*LONGER, "mechanism=mma_il")


@pytest.fixture(scope="module")
def dialled(trained_once) -> Path:
    return trained_once("mechanism=multi_path")


@pytest.fixture(scope="module")
def at(run):
    with running([run]) as server:
        yield server


@pytest.fixture
def client(at):
    client = at.client()
    yield client
    client.close()


def words_of(steps, pane=0) -> list[str]:
    """What a pane shows at the end."""
    shown: list[str] = []
    for step in steps:
        new = step["panes"][pane]
        shown = shown[: new["kept"]] + [word["text"] for word in new["words"]]
    return shown


def delays_of(steps, pane=0) -> list[int]:
    delays: list[int] = []
    for step in steps:
        new = step["panes"][pane]
        delays = delays[: new["kept"]] + [word["delay"] for word in new["words"]]
    return delays


def lag_of(delays: list[int], read: int) -> float:
    import torch

    row = torch.tensor([delays], dtype=torch.float32)
    return float(average_lagging(row, torch.tensor([read]), torch.tensor([len(delays)])))


def setting(policy="own", model=0, dials=None, **options) -> dict:
    return {"model": model, "policy": policy, "options": options, "dials": dials or {}}


# what is said


def test_words_delays_and_lagging_are_those_of_the_test_set(client, run):
    for instance in read_instances(run / "instances.log")[:6]:
        steps = client.sentence(instance.source)
        assert [step["word"] for step in steps] == [*instance.source.split(), ""]
        assert [step["read"] for step in steps][:-1] == [*range(1, len(steps))]
        assert " ".join(words_of(steps)) == instance.prediction
        assert tuple(delays_of(steps)) == instance.delays
        if instance.delays:
            lag = lag_of([*instance.delays], instance.source_length)
            assert steps[-1]["panes"][0]["lag"] == pytest.approx(lag, abs=0.005)  # two digits


def test_heads_stand_at_words_that_are_read(client):
    for step in client.sentence(SENTENCES[1]):
        for word in step["panes"][0]["words"]:
            assert word["heads"]
            assert all(0 <= place <= step["read"] + 1 for place in word["heads"])
            assert all(place <= step["read"] or step["ended"] for place in word["heads"])


def test_revisions_and_their_erasure_are_those_of_the_translator(dialled):
    with running([dialled], [RETRANSLATION, own()]) as at:
        client = at.client()
        alone = Served("run", checkpoint.load(dialled), "cpu", []).translator(RETRANSLATION)
        erased = 0
        for text in SENTENCES:
            steps = client.sentence(text)
            for word in text.split():
                alone.read(word)
            assert words_of(steps) == alone.finish()
            assert steps[-1]["panes"][0]["erased"] == alone.stream.written.erased
            erased += alone.stream.written.erased or 0
            alone.reset()
        assert erased, "without revisions this says nothing"


def test_sessions_at_once_get_what_they_get_alone(run):
    """Also when their panes differ."""
    texts = [instance.source for instance in read_instances(run / "instances.log")]
    texts = sorted(texts, key=len)[:5]
    panes = [[setting()], [setting("local_agreement", n=2)], [setting("retranslation"), setting()]]
    with running([run]) as at:
        alone = {}
        for number, text in enumerate(texts):
            client = at.client()
            client.say("panes", panes=panes[number % 3])
            client.get()
            alone[number] = client.sentence(text)
            client.close()
        clients = [at.client() for _ in texts]
        for number, client in enumerate(clients):
            client.say("panes", panes=panes[number % 3])
            client.get()
        for word in range(max(len(text.split()) for text in texts)):
            for client, text in zip(clients, texts, strict=True):
                if word < len(text.split()):
                    client.say("words", text=text.split()[word])
        for client in clients:
            client.say("end")
        for number, client in enumerate(clients):
            together = client.until(lambda message: message.get("ended"))
            assert untimed(together) == untimed(alone[number])
            client.close()


def untimed(steps: list[dict]) -> list[dict]:
    """Without what depends on when messages came."""
    for step in steps:
        for pane in step["panes"]:
            pane.pop("ms")
        step.pop("heard")
    return steps


def test_events_are_numbered_one_by_one(client):
    numbers = [step["n"] for text in SENTENCES for step in client.sentence(text)]
    assert numbers == [*range(1, len(numbers) + 1)]


def test_an_empty_sentence_has_no_end(client):
    client.say("end")
    client.say("words", text="  ")
    client.say("end")
    assert client.sentence("wir gehen .")[0]["sentence"] == 1


def test_a_failing_model_costs_its_sentence_alone(at, client, monkeypatch):
    def fail(translators, words):
        raise RuntimeError("no memory")

    client.sentence("wir gehen .")
    with monkeypatch.context() as patch:
        patch.setattr(interpretation, "read_together", fail)
        client.say("words", text="wir")
        assert client.get()["ended"] == "failed"
    assert client.sentence("wir gehen .")[-1]["ended"] == "end"


# panes and dials


def test_a_choice_holds_from_the_next_sentence_on(dialled):
    with running([dialled]) as at:
        client = at.client()
        client.say("words", text="der Mann")
        client.say("panes", panes=[setting(dials={"k": 1}), setting("local_agreement", n=3)])
        client.say("words", text="schläft")
        client.say("end")
        steps = client.until(lambda message: message.get("ended"))
        assert all(len(step["panes"]) == 1 for step in steps)
        chosen = client.get()
        assert [pane["policy"] for pane in chosen["panes"]] == ["own", "local_agreement"]
        early = delays_of(client.sentence(SENTENCES[1]))
        client.say("panes", panes=[setting(dials={"k": 20})])  # between sentences: at once
        assert client.get()["panes"][0]["dials"] == {"k": 20}
        assert early[0] < delays_of(client.sentence(SENTENCES[1]))[0] == 8


@pytest.mark.parametrize(
    ("pane", "why"),
    [
        (setting("own", dials={"k": 0}), "dial.k is 0; it must be"),
        (setting("own", dials={"threshold": 0.5}), "its dials are k"),
        (setting("hold_n", n=-1), "policy.n is -1; it must be"),
        (setting("hold_n", n=1.5), "policy.n is 1.5; it must be of type int"),
        (setting("hold_n"), "policy lacks a value for n"),
        (setting("nonsense"), "policy.name is 'nonsense'; choose one of"),
        (setting("wait_k", k=3), "waits: leave out policy"),
        (setting(model=1), "model=1: there are 1"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused_and_the_panes_stay(pane, why, dialled):
    served = Served("run", checkpoint.load(dialled), "cpu", policy_offers([]))
    with running([dialled]) as at:
        client = at.client()
        client.say("panes", panes=[pane])
        assert why in client.get()["text"]
        assert client.sentence("wir gehen .")[-1]["ended"] == "end"
    assert "wait_k" not in {offer.name for offer in served.offer.policies}


def test_dials_share_the_weights_of_the_model(dialled):
    served = Served("run", checkpoint.load(dialled), "cpu", [])
    models = [served.translator(Setting(0, "own", {}, {"k": k})).model for k in (1, 2, 2)]
    assert models[0] is not models[1]
    assert models[1] is models[2]
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert one.data_ptr() == other.data_ptr()


def test_options_are_offered_with_the_limits_of_their_types(run, dialled):
    (dial,) = Served("run", checkpoint.load(run), "cpu", []).offer.dials
    assert (dial.name, dial.value, dial.least, dial.most) == ("threshold", 0.5, 0.01, 0.99)
    (dial,) = Served("run", checkpoint.load(dialled), "cpu", []).offer.dials
    assert (dial.name, dial.whole, dial.least, dial.most) == ("k", True, 1, None)
    offers = {offer.name: offer for offer in policy_offers([])}
    assert next(iter(offers)) == "own"
    f, layer = offers["align_att"].options
    assert (f.value, f.least, layer.value, layer.optional) == (2, 0, None, True)
    (gamma,) = offers["confidence"].options
    assert (gamma.least, gamma.most) == (0, 1)


# limits


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
    assert [len(turn.word) for turn in session.waiting] == [3, 1000, 1000, 500]


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
    assert first.get()["text"] == "the session goes on elsewhere"
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


# doors


@pytest.mark.parametrize("origin", ["http://evil.example", "null", None, "http://127.0.0.1:1"])
def test_only_its_own_page_opens_the_socket(at, origin):
    with pytest.raises(InvalidStatus) as refused, connect(at.socket, origin=origin, proxy=None):
        pass
    assert refused.value.response.status_code == 403


def test_another_origin_may_be_allowed(run):
    with (
        running([run], origins=["https://demo.example"]) as at,
        connect(at.socket, origin="https://demo.example", proxy=None) as connection,
    ):
        connection.send(json.dumps({"type": "hello", "version": 1}))
        assert json.loads(connection.recv(10))["type"] == "welcome"


def get(at: Running, path: str, host: str | None = None, method: str = "GET"):
    connection = http.client.HTTPConnection(urlsplit(at.url).netloc, timeout=10)
    connection.putrequest(method, path, skip_host=host is not None)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    with closing(connection), connection.getresponse() as answer:
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, headers, answer.read()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421), ("127.0.0.1.evil.example:80", 421), ("", 421), ("[::1", 421),
        ("localhost:8350", 200), ("127.0.0.1", 200), ("[::1]:8350", 200), ("192.168.0.7:8350", 200),
    ],
)  # fmt: skip
def test_another_name_for_this_machine_is_refused(at, host, status):
    assert get(at, "/", host)[0] == status


def test_every_answer_has_the_policy(at):
    for path in (*FILES, "/nothing", "/socket"):
        _, headers, _ = get(at, path)
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["content-security-policy"].startswith(
            "default-src 'none'; script-src 'self'"
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert "unsafe" not in get(at, "/", "evil.example")[1]["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    ["/../pyproject.toml", "/%2e%2e/x", "/live.html", "/static/live.js", "/page/live.js", "//"],
)
def test_a_path_that_is_not_in_the_table_leads_nowhere(at, path):
    assert get(at, path)[0] == 404
    assert get(at, "/", method="POST")[0] == 405


def test_the_log_has_a_line_an_event_and_the_text_only_if_asked(at, run):
    client = at.client()
    client.sentence("der geheime Mann\u2028schläft .")
    client.say("nonsense")
    client.get()
    lines = at.log.getvalue().splitlines()
    assert all(
        re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d [a-z]+( \w+=.*)?$", line) for line in lines
    )
    assert "der geheime Mann schläft ." in at.log.getvalue()
    at.sessions.journal.with_text = False
    try:
        client.sentence("noch geheimer .")
    finally:
        at.sessions.journal.with_text = True
    assert "geheimer" not in at.log.getvalue()


# the program


def start(*words: object, code: str = "") -> subprocess.Popen[str]:
    program = f"import sys; {code}\nfrom simulmt.cli import main; main('serve')"
    command = [sys.executable, "-c", program, *map(str, words), "port=0"]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_signal_ends_the_server_with_its_connections(run, number, status):
    program = start(f"checkpoint={run}", "policy2=retranslation")
    assert program.stdout is not None
    url = re.search(r"http://\S+/", program.stdout.readline())[0]
    client = Client(Running(url))
    assert len(client.sentence("wir gehen .")[-1]["panes"]) == 2
    program.send_signal(number)
    with pytest.raises(ConnectionClosed):
        client.until(lambda message: False)
    out, err = program.communicate(timeout=20)
    assert program.returncode == status
    assert "Traceback" not in out + err
    assert err in ("", "error: interrupted\n")


def test_bad_options_are_refused_in_one_line(run):
    from simulmt.programs.serve import serve
    from simulmt.serve import server
    from small_runs import configuration

    here = f"checkpoint={run}"
    with server.listen("127.0.0.1", 0) as taken:
        port = f"port={taken.getsockname()[1]}"
        for words, why in [
            ([here, port], "another program may have it; choose another port"),
            ([here, "host=192.0.2.1"], "host=192.0.2.1 port=8350 cannot be used"),
            ([here, f"host={'x' * 100}.example"], "cannot be used"),
            ([here, "origins=['http://[']"], "it must be an origin such as"),
            ([here, "origins=['*']"], "it must be an origin such as"),
            ([here, "sessions=0"], "sessions is 0; it must be from 1"),
            ([here, "port=0", "policy2=nonsense"], "policy2 is 'nonsense'; choose one of own,"),
            ([here, "port=0", "policy2={name: hold_n, n: x}"], "policy.n is 'x'"),
            ([here, "port=0", "++dial.k=3"], "dial.k=3 with mechanism=mma_il"),
            (["checkpoint=nothing", "port=0"], "nothing"),
        ]:
            with pytest.raises(UserError, match=re.escape(why)):
                serve(configuration("serve", *words))


def test_what_is_missing_is_said(run):
    program = start(f"checkpoint={run}", code="sys.modules['uvicorn'] = None")
    _, err = program.communicate(timeout=60)
    assert program.returncode == 2
    assert (
        err == "error: serve needs uvicorn, which is not installed: pip install 'simulmt[serve]'\n"
    )
