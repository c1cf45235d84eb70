"""The application: a page, its files, and a socket, each guarded against pages of other origins.

Files are read when the server starts; a request names one of them or none, and no part of it
reaches the disk.
"""

import asyncio
import ipaddress
import logging
import mimetypes
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
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
from simulmt.serve.limits import CLOSING_SECONDS
from simulmt.serve.sessions import Session, Sessions

HEADERS = {
    "content-security-policy": (  # own files alone, and no text may become markup or script
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}
"""Of every response."""
_log = logging.getLogger("simulmt.serve")


class Guard:
    """Rejects what is not meant for this server, and adds `HEADERS` to all that it answers.

    Args:
        app: what answers the rest.
        origins: further origins whose pages may open the socket, such as
            `https://demo.example.org` behind a proxy.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self.app, self.origins = app, origins
        own = ("localhost", socket.gethostname().lower())
        self.names = {*own, *(urlsplit(origin).hostname for origin in origins)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or reject it."""

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        if scope["type"] == "lifespan" or self.admits(scope["type"], Headers(scope=scope)):
            await self.app(scope, receive, answer)
        elif scope["type"] == "websocket":
            await WebSocket(scope, receive, send).close()  # before it is accepted: status 403
        else:
            rejection = "this server has another name; to use this one, start it with origins=[...]"
            await PlainTextResponse(rejection, 421)(scope, receive, answer)

    def admits(self, kind: str, headers: Headers) -> bool:
        """Return whether a request names this server and, for a socket, is of an admitted page.

        A name that is neither an address nor the server's own could be an attacker's that resolves
        to this machine (DNS rebinding).
        """
        host, origin = headers.get("host", ""), headers.get("origin", "")
        own = kind != "websocket" or origin in {f"http://{host}", *self.origins}
        if not (self._answers_to(host) and own):
            _log.info("rejected host=%r origin=%r", host[:200], origin[:200])
            return False
        return True

    def _answers_to(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return name in self.names or bool(ipaddress.ip_address(name))
        except ValueError:
            return False


def application(sessions: Sessions, origins: Sequence[str] = ()) -> Starlette:
    """Return the application; words are read as long as it runs."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        reading = asyncio.create_task(sessions.run())
        yield
        reading.cancel()

    async def talk(websocket: WebSocket) -> None:
        await converse(websocket, sessions)

    routes = [*(_file(path, name) for path, name in FILES.items()), WebSocketRoute("/socket", talk)]
    return Starlette(routes=routes, middleware=[Middleware(Guard, origins)], lifespan=lifespan)


def _file(path: str, name: str) -> Route:
    """Return the route of a file, which is read here and now."""
    response = partial(Response, content(name), media_type=mimetypes.guess_type(name)[0])
    return Route(path, lambda request: response())


async def converse(websocket: WebSocket, sessions: Sessions) -> None:
    """Talk to a client until it leaves, or its session ends and it is told why."""
    await websocket.accept()
    session = sessions.begin()
    sending = asyncio.create_task(_send(websocket, session))
    try:
        await _hear(websocket, session, sessions.limits.idle)
        if session.over:
            await asyncio.wait({sending}, timeout=CLOSING_SECONDS)
    finally:
        sending.cancel()
        sessions.forget(session)


async def _hear(websocket: WebSocket, session: Session, idle: float) -> None:
    while not session.over:
        try:
            message = await asyncio.wait_for(websocket.receive(), idle)
        except asyncio.TimeoutError:
            session.end(f"no message for {idle:g} seconds")
        else:
            if message["type"] == "websocket.disconnect":
                return
            session.hear(message.get("text") or message.get("bytes") or "")


async def _send(websocket: WebSocket, session: Session) -> None:
    with suppress(WebSocketDisconnect, RuntimeError):  # the client has left
        while text := await session.unsent.get():
            await websocket.send_text(text)
        await websocket.close(1008)
