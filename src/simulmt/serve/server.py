"""Listens, and serves the application until a signal ends it."""

import ipaddress
import socket
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from simulmt.errors import UserError
from simulmt.system.ending import end_late


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Args:
        host: an address of this machine.
        port: 0 for one that is free.

    Raises:
        UserError: the address is not of this machine, or the port is taken or not allowed.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # peers may vanish
        return listening
    except (OSError, ValueError) as error:  # ValueError: an impossible host name
        why = f"host={host} port={port} cannot be used ({error})"
        raise UserError(f"{why}: choose an address of this machine and a free port") from None


def address(listening: socket.socket) -> str:
    """Return the address of the page."""
    host, port = listening.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = socket.gethostname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def is_public(listening: socket.socket) -> bool:
    """Return True if other machines may connect."""
    return not ipaddress.ip_address(listening.getsockname()[0]).is_loopback


def server(app: Starlette, message_bytes: int) -> uvicorn.Server:
    """Return the server; `run` of it, with a listening socket, returns after a signal."""
    config = uvicorn.Config(
        app,
        ws_max_size=message_bytes,
        ws_per_message_deflate=False,
        log_config=None,
        log_level="error",  # `simulmt.serve` logs the rest
        access_log=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    return _Server(config)


class _Server(uvicorn.Server):
    """Ends some seconds after a signal, even if a model hangs."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop the server."""
        end_late(128 + sig)
        super().handle_exit(sig, frame)
