"""The application: a page, its files, and a socket, each guarded against pages of other origins.

Files are read when the server starts; a request names one of them or none, and no part of it
reaches the disk.
"""

import asyncio
import ipaddress
import logging
import mimetypes
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from simulmt.page import FILES, content
from simulmt.serve.sessions import Session, Sessions

HEADERS = {
    "content-security-policy": (  # own files alone, and no text may become markup or script
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'; frame-ancestors "
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}
"""Headers of every response; `Guard` appends the origins that may embed the page."""
CLOSING_SECONDS = 5.0
"""How long a client may take to read why its session has ended."""
LEFT = {1012: "the server stops"}
"""Why a socket is closed, by the code for it; for other codes, its client has left."""
_log = logging.getLogger("simulmt.serve")


class Guard:
    """Rejects what is not meant for this server, and adds headers to all that it answers.

    Args:
        app: what answers the rest.
        origins: further origins whose pages may open the socket, such as
            `https://demo.example.org` behind a proxy.
        frames: origins whose pages may show this one in a frame.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str], frames: Sequence[str]) -> None:
        self.app, self.origins, policy = app, origins, "content-security-policy"
        self.headers = HEADERS | {policy: HEADERS[policy] + (" ".join(frames) or "'none'")}
        self.names = {urlsplit(origin).hostname for origin in origins}
        self.names |= {"localhost", socket.gethostname().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or reject it."""

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self.headers)
            await send(message)

        kind = scope["type"]
        if kind == "lifespan" or self.admits(Headers(scope=scope), kind == "websocket"):
            await self.app(scope, receive, answer)
        else:
            status = 403 if kind == "websocket" else 421
            why = "simulmt serve rejects this address; to allow it: origins=[https://HOST]"
            await PlainTextResponse(why, status)(scope, receive, answer)

    def admits(self, headers: Headers, is_socket: bool) -> bool:
        """Return True if a request names this server; a socket must also be of an admitted page.

        A name that is neither an address nor the server's own could be an attacker's that resolves
        to this machine (DNS rebinding).
        """
        host, origin = headers.get("host", ""), headers.get("origin", "")
        with suppress(ValueError):  # not an address, or not a host at all
            name = urlsplit(f"//{host}").hostname or ""
            known = name in self.names or bool(ipaddress.ip_address(name))
            if known and (not is_socket or origin in {f"http://{host}", *self.origins}):
                return True
        rejected = "rejected host=%r origin=%r: if one is yours, start with origins=[https://HOST]"
        _log.info(rejected, host[:200], origin[:200])
        return False


def application(
    sessions: Sessions, origins: Sequence[str] = (), frames: Sequence[str] = ()
) -> Starlette:
    """Return the application; for `origins` and `frames` see `Guard`."""
    talk = WebSocketRoute("/socket", partial(converse, sessions=sessions))
    routes = [*(_file(path, name) for path, name in FILES.items()), talk]
    return Starlette(routes=routes, middleware=[Middleware(Guard, origins, frames)])


def _file(path: str, name: str) -> Route:
    """Return the route of a file, which is read here and now."""
    response = partial(Response, content(name), media_type=mimetypes.guess_type(name)[0])
    return Route(path, lambda request: response())


async def converse(websocket: WebSocket, sessions: Sessions) -> None:
    """Exchange messages with a client until it leaves, or its session ends."""
    await websocket.accept()
    session = sessions.begin()
    interpreting = asyncio.create_task(session.interpret())
    sending = asyncio.create_task(_send(websocket, session))
    try:
        await _receive(websocket, session, sessions.limits.idle)
        await asyncio.wait({sending}, timeout=CLOSING_SECONDS if session.over else 0)
    finally:
        interpreting.cancel()
        sending.cancel()
        sessions.remove(session)


async def _receive(websocket: WebSocket, session: Session, idle: float) -> None:
    while not session.over:
        try:
            message = await asyncio.wait_for(websocket.receive(), idle)
        except TimeoutError:
            if session.waiting.empty():  # else the client waits for a slow model
                session.end(f"no message for {idle:g} seconds")
        else:
            if message["type"] != "websocket.disconnect":
                session.receive(message.get("text") or message.get("bytes") or "")
            else:
                session.end(LEFT.get(message["code"], "its client has left"))


async def _send(websocket: WebSocket, session: Session) -> None:
    with suppress(WebSocketDisconnect, RuntimeError):  # the client has left
        while text := await session.unsent.get():
            await websocket.send_text(text)
        await websocket.close(1008)
