"""The application: a page, its files, and a socket, each guarded against pages of other origins.

Files are read when the server starts; a request names one of them or none, and no part of it
reaches the disk.
"""

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from simulmt.page import FILES, content
from simulmt.serve.conversation import converse
from simulmt.serve.journal import Journal
from simulmt.serve.sessions import Sessions

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""The content security policy: own files alone, and no text may become markup or script."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}
"""Of every response."""
SOCKET = "/socket"


@dataclass(frozen=True)
class Doors:
    """Which names the server answers to, and which pages may open its socket.

    Attributes:
        origins: Further origins whose pages may open the socket, such as `https://demo.example.org`
            behind a proxy.
    """

    origins: Sequence[str] = ()

    def answers_to(self, host: str) -> bool:
        """Return whether a Host header names this server: an address, or a name of its own.

        Any other name could be an attacker's that resolves to this machine (DNS rebinding).
        """
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        own = {"localhost", socket.gethostname().lower()}
        return _is_address(name) or name in own | {urlsplit(o).hostname for o in self.origins}

    def admits(self, origin: str, host: str) -> bool:
        """Return whether a page of an origin may open the socket; the server's own page may."""
        return origin == f"http://{host}" or origin in self.origins


def _is_address(name: str) -> bool:
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return False


class Guard:
    """Turns away what is not meant for this server, and adds `HEADERS` to all that it answers."""

    def __init__(self, app: ASGIApp, doors: Doors, journal: Journal) -> None:
        self.app, self.doors, self.journal = app, doors, journal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        host, origin = headers.get("host", ""), headers.get("origin", "")
        is_socket = scope["type"] == "websocket"
        if not self.doors.answers_to(host):
            self.journal.write("refused", host=host[:200])
        elif is_socket and not self.doors.admits(origin, host):
            self.journal.write("refused", origin=origin[:200])
        else:
            await self.app(scope, receive, send if is_socket else partial(_with_headers, send))
            return
        if is_socket:
            await send({"type": "websocket.close", "code": 1008})  # before it is accepted: 403
        else:
            refusal = PlainTextResponse(
                "this server has another name; to use this one, start it with origins=[...]", 421
            )
            await refusal(scope, receive, partial(_with_headers, send))


async def _with_headers(send: Send, message: Message) -> None:
    if message["type"] == "http.response.start":
        own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        message = {**message, "headers": [*message["headers"], *own]}
    await send(message)


def application(sessions: Sessions, doors: Doors) -> Starlette:
    """Return the application; the sessions run as long as it does."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        running = asyncio.create_task(sessions.run())
        yield
        running.cancel()
        sessions.close()

    async def talk(websocket: WebSocket) -> None:
        await converse(websocket, sessions)

    pages = [_file(path, name) for path, name in FILES.items()]
    guard = Middleware(Guard, doors=doors, journal=sessions.journal)
    routes = [*pages, WebSocketRoute(SOCKET, talk)]
    return Starlette(routes=routes, middleware=[guard], lifespan=lifespan)


def _file(path: str, name: str) -> Route:
    """Return the route of a file, which is read here and now."""
    kinds = {
        "html": "text/html",
        "css": "text/css",
        "js": "text/javascript",
        "svg": "image/svg+xml",
    }
    response = partial(Response, content(name), media_type=kinds[name.rpartition(".")[2]])
    return Route(path, lambda request: response())
