"""The server: what it says, and what panes and dials do to it."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from serving import SENTENCES, delays_of, lag_of, running, setting, untimed, words_of
from simulmt.decoding.policies.hold_n import HoldN
from simulmt.files.instances import read_instances
from simulmt.programs.serve import examples, names_of, policy_offers
from simulmt.saved import checkpoint, exported
from simulmt.serve import panes as serve_panes
from simulmt.serve import sessions as serve_sessions
from simulmt.serve.messages import PaneStep, Setting, Written
from simulmt.serve.models import Served
from simulmt.serve.sessions import Session

ONE = {
    "index": 0, "prediction": "we go .", "delays": [1, 2, 3], "prediction_length": 3,
    "reference": "we go .", "source": "wir gehen .", "source_length": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def dialled(trained_once) -> Path:
    return trained_once("mechanism=multi_path")


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


def test_a_failing_model_costs_its_sentence_alone(at, client, monkeypatch):
    def fail(translators, words):
        raise RuntimeError("no memory")

    start = len(at.log.getvalue())
    client.sentence("wir gehen .")
    with monkeypatch.context() as patch:
        patch.setattr(serve_panes, "advance", fail)
        client.say("words", text="wir")
        assert client.get()["panes"][0]["failed"]
    client.say("words", text="gehen nach Hause")
    client.say("end")
    rest = client.until(lambda message: message.get("ended"))
    assert [(step["sentence"], step["word"]) for step in rest] == [
        (2, "gehen"), (2, "nach"), (2, "Hause"), (2, ""),
    ]  # fmt: skip
    assert all(step["panes"][0]["failed"] and not step["panes"][0]["words"] for step in rest)
    assert len(re.findall(r"^error .*test_serve.py, line", at.log.getvalue()[start:], re.M)) == 1
    assert "Traceback" not in at.log.getvalue()[start:]
    after = client.sentence("wir gehen .")
    assert after[-1]["sentence"] == 3
    assert not after[-1]["panes"][0]["failed"]


def test_a_failing_policy_leaves_the_other_pane_its_sentence(at, client, monkeypatch):
    def fail(*_):
        raise ValueError("a mistake")

    alone = untimed(client.sentence(SENTENCES[1]))
    client.say("panes", panes=[setting("hold_n", n=0), setting()])
    client.get()
    monkeypatch.setattr(HoldN, "commit", fail)
    both = client.sentence(SENTENCES[1])
    assert all(step["panes"][0]["failed"] for step in both)
    assert words_of(both, 1) == words_of(alone)
    assert delays_of(both, 1) == delays_of(alone)
    assert f"source={SENTENCES[1]!r}" in at.log.getvalue().splitlines()[-1]


def test_a_fault_of_ours_ends_its_session_alone_and_is_logged(at, client, monkeypatch):
    def fail(self, ended):
        raise KeyError("a fault")

    other = at.client()
    with monkeypatch.context() as patch:
        patch.setattr(Session, "_finish", fail)
        other.say("words", text="wir")
        other.say("end")
        assert (
            "its log has the reason"
            in other.until(lambda message: message["type"] == "closed")[-1]["text"]
        )
    assert "KeyError: 'a fault'" in at.log.getvalue()
    assert client.sentence("wir gehen .")[-1]["ended"] == "end"


def test_a_round_that_fails_ends_its_sessions_and_not_the_server(at, monkeypatch):
    def fail(pairs):
        raise MemoryError("a fault of a round")

    other = at.client()
    with monkeypatch.context() as patch:
        patch.setattr(serve_sessions, "read_words", fail)
        other.say("words", text="wir")
        closed = other.until(lambda message: message["type"] == "closed")[-1]
        assert "its log has the reason" in closed["text"]
    assert "MemoryError: a fault of a round" in at.log.getvalue()
    assert at.client().sentence("wir gehen .")[-1]["ended"] == "end"


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
        (setting("hold_n", n=-1), "policy.n is -1; it must be"),
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
    (waits,) = (offer for offer in served.offer.policies if offer.name == "wait_k")
    assert "waits: leave out policy" in waits.unsuitable
    assert not waits.possible


def test_policies_are_offered_by_their_own_word(run, dialled):
    offers = {}
    for place in (run, dialled):
        offer = Served("run", checkpoint.load(place), "cpu", policy_offers([])).offer
        offers[place] = {policy.name: policy for policy in offer.policies}
    suit = {place: [name for name, one in own.items() if not one.unsuitable]
            for place, own in offers.items()}  # fmt: skip
    assert suit[run] == ["own", "newest_token", "retranslation"]
    assert suit[dialled] == [
        "own", "adaptive_wait_k", "align_att", "ed_att", "retranslation",
    ]  # fmt: skip
    assert offers[run]["newest_token"].overrules
    assert "mechanism=mma_il decides by itself when to read" in offers[run]["hold_n"].unsuitable
    assert offers[run]["hold_n"].possible
    assert not offers[run]["align_att"].possible


def test_sentences_to_try_are_of_the_test_set(run, tmp_path):
    trained = checkpoint.load(run)
    sources = [instance.source for instance in read_instances(run / "instances.log")]
    tried = examples(trained)
    assert len({*tried}) == 3
    assert {*tried} <= {*sources}
    exported.write(trained, tmp_path / "exported", {})
    assert examples(checkpoint.load(tmp_path / "exported")) == []
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    elsewhere = replace(trained, path=tmp_path / "run" / "checkpoints" / "best.ckpt")
    for lines, found in [("", []), (json.dumps(ONE) + "\n", ["wir gehen ."])]:
        (tmp_path / "run" / "instances.log").write_text(lines)
        assert examples(elsewhere) == found


# code of a plugin


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_a_policy_that_exits_costs_its_sentence_alone(at, client, monkeypatch, error):
    def leave(*_):
        raise error

    other = at.client()
    other.say("panes", panes=[setting("hold_n", n=0)])
    other.get()
    start = len(at.log.getvalue())
    with monkeypatch.context() as patch:
        patch.setattr(HoldN, "commit", leave)
        other.say("words", text="wir")
        assert other.get()["panes"][0]["failed"]
    other.sentence("gehen .")
    (line,) = re.findall("^error .*$", at.log.getvalue()[start:], re.MULTILINE)
    assert "test_serve.py, line " in line
    assert f"raised {error!r}" in line
    assert "Traceback" not in at.log.getvalue()[start:]
    for session in (other, client):
        assert session.sentence("wir gehen .")[-1]["ended"] == "end"


def test_a_policy_that_exits_when_it_is_chosen_leaves_the_panes_as_they_were(client, monkeypatch):
    def leave(*_):
        raise SystemExit(3)

    with monkeypatch.context() as patch:
        patch.setattr(HoldN, "demands", leave)
        client.say("panes", panes=[setting("hold_n", n=0)])
        assert "raised SystemExit(3)" in client.get()["text"]
    assert client.sentence("wir gehen .")[-1]["ended"] == "end"


def test_a_word_that_stays_keeps_the_delay_at_which_it_was_written():
    """Also of a policy that takes words back."""
    draft = SimpleNamespace(revises=True, reset=lambda: None, decided=lambda: [])
    pane = serve_panes.SentencePane(Setting(), draft)
    draft.words_read, draft.shown = ["x"], ["a", "b"]
    assert pane.follow(ended=False) == PaneStep(0, (Written("a", 1), Written("b", 1)))
    draft.words_read, draft.shown = ["x", "y"], ["a", "c", "d"]
    assert pane.follow(ended=False) == PaneStep(1, (Written("c", 2), Written("d", 2)))
    draft.words_read, draft.words_written = ["x", "y", "z"], ["a", "c"]
    assert pane.follow(ended=True) == PaneStep(2)
    assert pane.delays == [1, 2]


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["runs/mma_il"], ["mma_il"]),
        (["runs/a/mma_il", "runs/b/mma_il"], ["a/mma_il", "b/mma_il"]),
        (["a/checkpoints/best.ckpt", "b"], ["a/best.ckpt", "b"]),
        (["x/a/checkpoints/1.ckpt", "y/a/checkpoints/1.ckpt"], ["x/a/1.ckpt", "y/a/1.ckpt"]),
    ],
)
def test_models_have_names_that_differ(paths, names):
    assert names_of([*map(Path, paths)]) == names
