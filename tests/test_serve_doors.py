"""The server: whom it admits, what it logs, how it starts and ends."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from serving import Client, Running, running
from simulmt.decoding.policies.hold_n import HoldN
from simulmt.errors import UserError
from simulmt.options import construct
from simulmt.page import FILES
from simulmt.programs.plain import plain
from simulmt.programs.serve import ServeOptions, serve
from simulmt.serve import app, panes, server
from simulmt.system.ending import TERMINATED
from small_runs import ROOT, configuration


@pytest.mark.parametrize("origin", ["http://evil.example", "null", None, "http://127.0.0.1:1"])
def test_only_its_own_page_opens_the_socket(at, origin):
    with pytest.raises(InvalidStatus) as refused, connect(at.socket, origin=origin, proxy=None):
        pass
    assert refused.value.response.status_code == 403


def test_another_origin_may_be_allowed(run):
    with (
        running([run], origins=("https://demo.example",)) as at,
        connect(at.socket, origin="https://demo.example", proxy=None) as connection,
    ):
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
        ("evil.example", 421), ("127.0.0.1.evil.example:80", 421), ("", 421),
        ("localhost:8350", 200), ("[::1]:8350", 200), ("192.168.0.7:8350", 200),
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


def test_pages_that_may_embed_this_one_are_named(at, run):
    assert "frame-ancestors 'none'" in get(at, "/")[1]["content-security-policy"]
    with running([run], frames=("https://a.example", "http://b.example:8080")) as other:
        policy = get(other, "/")[1]["content-security-policy"]
        assert policy.endswith("; frame-ancestors https://a.example http://b.example:8080")


@pytest.mark.parametrize("path", ["/../pyproject.toml", "/%2e%2e/x", "/page/live.js"])
def test_a_path_that_is_not_in_the_table_leads_nowhere(at, path):
    assert get(at, path)[0] == 404
    assert get(at, "/", method="POST")[0] == 405


def test_the_log_has_a_line_an_event_and_the_text_only_if_asked(at, run):
    client = at.client()
    client.sentence("der geheime Mann\u2028schläft .")
    client.say("nonsense")
    client.get()
    lines = at.log.getvalue().splitlines()
    assert all(re.match(r"[a-z]+( \w+=.*)?$", line) for line in lines)
    assert "der geheime Mann schläft ." in at.log.getvalue()
    at.sessions.log_text = False
    try:
        client.sentence("noch geheimer .")
    finally:
        at.sessions.log_text = True
    assert "geheimer" not in at.log.getvalue()


@pytest.mark.parametrize("given", ["http://a.example:9000/", "[http://a.example:9000]"])
def test_a_single_origin_needs_no_brackets_and_may_end_in_a_slash(given):
    cfg = configuration("serve", "checkpoint=x", f"frame_ancestors={given}", f"origins={given}")
    options = construct(ServeOptions, plain(cfg), "")
    assert options.origins == options.frame_ancestors == ["http://a.example:9000"]


# the program


def test_ctrl_c_while_the_first_words_are_read_is_no_fault_of_a_plugin(run, monkeypatch):
    from simulmt.programs.serve import serve

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(panes, "advance", interrupt)
    with pytest.raises(KeyboardInterrupt):
        serve(configuration("serve", f"checkpoint={run}", "port=0"))


def test_the_first_words_are_read_before_a_page_can_be_opened(run, monkeypatch, capsys):
    from simulmt.programs.serve import serve

    def leave(*_):
        raise SystemExit(3)

    monkeypatch.setattr(HoldN, "commit", leave)
    with pytest.raises(UserError, match=r"second pane: .*raised SystemExit"):
        serve(configuration("serve", f"checkpoint={run}", "port=0", "policy2=hold_n"))
    assert capsys.readouterr().out == ""


@contextmanager
def started(before: str, *options: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """The verb in a process of its own, which executes some code first."""
    with subprocess.Popen(
        [sys.executable, "-c", f"{before}\n{MAIN}", *options, "port=0"],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            assert program.stdout is not None
            yield program
        finally:
            program.kill()


@contextmanager
def served(before: str, *options: str) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    """The same, and a client."""
    with started(before, *options) as program:
        yield program, Client(Running(re.search(r"http://\S+/", program.stdout.readline())[0]))


MAIN = "from simulmt.programs.cli import main; main('serve')"
HEARD = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # despite pytest
LOADS = """
import time
from simulmt.decoding.policies.hold_n import HoldN
HoldN.commit = lambda *_: print("loads", flush=True) or time.sleep(60)
"""
HANGS = """
import time
from simulmt.serve import sessions
from simulmt.system import ending
ending._PATIENCE = 1
sessions.read_words = lambda turns: print("reads", flush=True) or time.sleep(60)
"""


def test_sigterm_while_a_server_loads_leaves_no_temporary_files(run, tmp_path):
    with started(LOADS, f"checkpoint={run}", "policy=hold_n", TMPDIR=str(tmp_path)) as program:
        assert program.stdout.readline() == "loads\n"
        program.send_signal(signal.SIGTERM)
        assert program.wait(20) == TERMINATED
    assert not [*tmp_path.iterdir()]


def test_sigterm_ends_a_server_whose_model_hangs(run):
    with served(HANGS, f"checkpoint={run}") as (program, client):
        client.say("words", text="wir ")
        assert "reads\n" in program.stdout  # waits for this line
        program.send_signal(signal.SIGTERM)
        assert program.wait(20) == TERMINATED


def test_ctrl_c_ends_the_server_with_its_connections(run):
    with served(HEARD, f"checkpoint={run}", "policy2=retranslation") as (program, client):
        assert len(client.sentence("wir gehen .")[-1]["panes"]) == 2
        program.send_signal(signal.SIGINT)
        with pytest.raises(ConnectionClosed):
            client.until(lambda message: False)
        out, err = program.communicate(timeout=20)
    assert (program.returncode, err) == (130, "error: interrupted\n")
    assert "Traceback" not in out
    assert "why='the server stops'" in out


def test_bad_options_are_refused_in_one_line(run):
    from simulmt.programs.serve import serve

    here = f"checkpoint={run}"
    with server.open_socket("127.0.0.1", 0) as taken:
        port = f"port={taken.getsockname()[1]}"
        for words, why in [
            ([here, port], "a free port"),
            ([here, "host=192.0.2.1"], "host=192.0.2.1 port=8350"),
            ([here, "origins=['*']"], "origins.0 is '*'; it must be a scheme and a host"),
            ([here, "origins=https://a.example/path"], "such as https://demo.example.org"),
            ([here, 'frame_ancestors=["x; script-src *"]'], "frame_ancestors.0 is "),
            ([here, "port=0", "policy2={name: hold_n, n: x}"], "policy.n is 'x'"),
            ([here, "port=0", "++dial.k=3"], "dial.k=3 with mechanism=mma_il"),
        ]:
            with pytest.raises(UserError, match=re.escape(why)):
                serve(configuration("serve", *words))


def test_each_pane_has_its_own_dials(trained_once, monkeypatch):
    run, panes = trained_once("mechanism=multi_path"), []

    def leave(sessions, *_):
        panes.extend(sessions.panes)
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "application", leave)
    options = [f"checkpoint={run}", "port=0", "++dial.k=2", "++dial2.k=5"]
    with pytest.raises(KeyboardInterrupt):
        serve(configuration("serve", *options))
    assert [dict(pane.dials) for pane in panes] == [{"k": 2}, {"k": 5}]
