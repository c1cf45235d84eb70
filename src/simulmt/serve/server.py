"""Listens, and serves the application until a signal ends it."""

import asyncio
import errno
import ipaddress
import logging
import socket

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from simulmt.errors import UserError
from simulmt.serve import limits

_QUIET = ("uvicorn", "uvicorn.error", "websockets", "asyncio")
_SPARE = 50
"""Requests beyond the sessions that may be under way; silent connections count."""


class Brief(H11Protocol):
    """HTTP over connections that end after a while, whether or not a request has come.

    So a client that is silent, or sends a letter now and then, keeps no place. Connections of
    sessions are not HTTP any more.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Set the time at which the connection ends."""
        super().connection_made(transport)
        self.loop.call_later(limits.HTTP_SECONDS, self._end)

    def _end(self) -> None:
        if self.transport.get_protocol() is self:
            self.transport.abort()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Args:
        host: an address of this machine.
        port: 0 for one that is free.

    Raises:
        UserError: the address is not of this machine, or the port is taken or not allowed.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError, ValueError) as error:  # ValueError: no name that there can be
        why = getattr(error, "strerror", None) or str(error)
        remedy = "give an address of this machine, such as 127.0.0.1, and a port that you may use"
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            remedy = "another program has it; choose another port, or port=0 for any that is free"
        raise UserError(f"host={host} port={port} cannot be used ({why}): {remedy}") from None


def address(listening: socket.socket) -> str:
    """Return the address of the page."""
    host, port = listening.getsockname()[:2]
    if ipaddress.ip_address(host.partition("%")[0]).is_unspecified:
        host = socket.gethostname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def is_public(listening: socket.socket) -> bool:
    """Return whether other machines may connect."""
    return not ipaddress.ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback


def server(app: Starlette, allowed: limits.Limits) -> uvicorn.Server:
    """Return the server; `serve` of it, with a listening socket, returns after a signal."""
    for name in _QUIET:  # the journal says what happens
        logging.getLogger(name).setLevel(logging.CRITICAL)
    config = uvicorn.Config(
        app,
        lifespan="on",
        loop="asyncio",
        http=Brief,
        ws="websockets-sansio",
        ws_max_size=allowed.message_bytes,
        ws_per_message_deflate=False,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=allowed.sessions + _SPARE,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)


def serve(app: Starlette, listening: socket.socket, allowed: limits.Limits) -> None:
    """Serve until Ctrl-C or SIGTERM, which then has its usual effect on the program."""
    asyncio.run(server(app, allowed).serve(sockets=[listening]))
