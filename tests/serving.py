"""A server in a thread, and clients that talk to it."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from websockets.sync.client import ClientConnection, connect

from simulmt.latency import average_lagging
from simulmt.programs.serve import examples, policy_offers
from simulmt.saved import checkpoint
from simulmt.serve import app, server
from simulmt.serve.messages import Setting
from simulmt.serve.models import Served
from simulmt.serve.sessions import Limits, Session, Sessions

LIMITS = Limits(sessions=200, message_bytes=16_384, words=200, waiting=200, idle=600)

SENTENCES = ["der Mann schläft .", "morgen liest die alte Frau ein Buch .", "wir gehen ."]


class Running:
    """A server that runs."""

    def __init__(self, url: str, *made: Any) -> None:
        """Args are the sessions, uvicorn's server, its loop and the log, if it is in a thread."""
        self.url = url
        if made:
            self.sessions, self.made, self.loop, self.log = made
        self.socket = url.replace("http", "ws") + "socket"
        self.origin = url.rstrip("/")
        self.clients: list[Client] = []

    def client(self) -> Client:
        client = Client(self)
        client.session = max(self.sessions.open, key=lambda session: session.number)
        return client


@contextmanager
def running(
    runs: list[Path],
    panes: list[Setting] | None = None,
    limits: Limits = LIMITS,
    origins: tuple[str, ...] = (),
    frames: tuple[str, ...] = (),
    port: int = 0,
    cut: str | None = None,
) -> Iterator[Running]:
    """Serves runs on a port of this machine, by default a free one; with a cut, as streams."""
    offers, log = policy_offers([]), io.StringIO()
    trained = [checkpoint.load(run) for run in runs]
    models = [
        Served(run.name, one, "cpu", offers, examples(one), cut)
        for run, one in zip(runs, trained, strict=True)
    ]
    listening = server.open_socket("127.0.0.1", port)
    url = server.address(listening)
    started = threading.Event()
    made: list[Any] = []

    async def serve() -> None:
        sessions = Sessions(models, panes or [Setting()], limits, log_text=True)
        at = server.server(app.application(sessions, origins, frames), limits.message_bytes)
        made.extend([sessions, at, asyncio.get_running_loop()])
        started.set()
        await at.serve(sockets=[listening])

    with logged(log):
        thread = threading.Thread(target=asyncio.run, args=(serve(),))
        thread.start()
        assert started.wait(60)
        at = Running(url, *made, log)
        try:
            yield at
        finally:
            for client in at.clients:
                client.close()
            made[1].should_exit = True
            thread.join(120)  # a round under way is the last
            assert not thread.is_alive()


@contextmanager
def logged(log: io.StringIO) -> Iterator[None]:
    """Writes what the server logs."""
    logger, handler = logging.getLogger("simulmt.serve"), logging.StreamHandler(log)
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class Client:
    """A program that does what the page does; a session that begins is greeted, and has panes."""

    session: Session
    """Its session in the server."""

    def __init__(self, at: Running) -> None:
        self._open = ExitStack()
        at.clients.append(self)
        self.connection: ClientConnection = self._open.enter_context(
            connect(at.socket, origin=at.origin, compression=None, proxy=None, close_timeout=1)
        )
        self.greeting = self.get()
        if self.greeting["type"] == "welcome":
            self.panes = self.get()["panes"]

    def say(self, kind: str, **fields: Any) -> None:
        self.connection.send(json.dumps({"type": kind, **fields}))

    def get(self, timeout: float = 20) -> dict[str, Any]:
        return json.loads(self.connection.recv(timeout))

    def until(self, end: Any) -> list[dict[str, Any]]:
        """What comes, up to the first message for which `end` is true."""
        came = [self.get()]
        while not end(came[-1]):
            came.append(self.get())
        return came

    def sentence(self, text: str) -> list[dict[str, Any]]:
        """The steps of a sentence."""
        self.say("words", text=text)
        self.say("end")
        return self.until(lambda message: message.get("ended"))

    def close(self) -> None:
        self._open.close()


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
    row = torch.tensor([delays], dtype=torch.float32)
    return float(average_lagging(row, torch.tensor([read]), torch.tensor([len(delays)])))


def setting(policy="own", model=0, dials=None, **options) -> dict:
    return {"model": model, "policy": policy, "options": options, "dials": dials or {}}


def untimed(steps: list[dict]) -> list[dict]:
    """Without what depends on when messages came."""
    for step in steps:
        for pane in step["panes"]:
            pane.pop("ms")
    return steps
