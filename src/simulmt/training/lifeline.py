"""A connection from each process of a run to the first one: when one has gone, all end.

A collective operation whose partner has gone fails at once, after half an hour or never, depending
on the backend and the network. So the run looks at connections instead. The system closes those of
a process however the process ends, and asks a machine that is silent for five seconds whether it is
still there. A process may compute, wait or be stopped for any time: the system answers for it.

A process that ends by itself first sends a line `STATUS REASON`; the reason is empty if it has been
printed. Only the first process receives the lines of the others.
"""

import os
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from simulmt import ending
from simulmt.ending import BAD_INPUT

_CONNECTS = 60.0
"""Seconds within which the first process, which has started, accepts a connection."""
_ASKED_AFTER, _ASKED = 5, 3
"""Seconds of silence after which, and how often, the system asks whether a machine is there."""
_SIGNALLED, _FAILED = 1.0, 5.0
"""Seconds that the first process waits for its own signal or error before it reports another's."""
_GONE = "has gone without a word: it was killed, or it crashed"
_SILENT = "is out of reach: its machine does not answer"


class Lifeline:
    """The connection of a process that is alone, or that another one has started."""

    def decide(self, decision: Callable[[], bool]) -> bool:
        """Return what the first process decides, once it has decided."""
        return decision()

    def leave(self, status: int, reason: str = "") -> None:
        """Tell the other processes how this one ends."""


@dataclass
class _Peer:
    """Another process, as the first one knows it; the rank is -1 until it has sent the token."""

    rank: int = -1
    host: str = ""
    received: bytes = b""


class First(Lifeline):
    """The connections of the first process.

    Args:
        ranks: those of the others.
        store: what they meet at.

    Attributes:
        missing: The ranks that are not connected yet.
        all_here: Is set once there are none.
    """

    def __init__(self, ranks: Sequence[int], store: TCPStore) -> None:
        self._store = store  # which serves the others as long as it is here
        self.missing = {*ranks}
        self.all_here = threading.Event()
        self._peers: dict[socket.socket, _Peer] = {}
        self._decision = self._last = b""
        self._due: tuple[float, int, str] | None = None
        self._lock = threading.Lock()
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        self._server = socket.create_server(("", 0), family=family, dualstack_ipv6=both)
        self._token = secrets.token_hex(8)
        self.place = f"{self._server.getsockname()[1]} {self._token} {socket.gethostname()}"
        threading.Thread(target=self._listen, daemon=True).start()

    def decide(self, decision: Callable[[], bool]) -> bool:
        """Return the decision, and send it to the others."""
        chosen = decision()
        with self._lock:
            self._decision = b"decided %d\n" % chosen
            self._send(self._decision)
        return chosen

    def leave(self, status: int, reason: str = "") -> None:
        """Tell the others how this process ends, and read no more from them."""
        self._last = self._last or b"%d \n" % status
        self._send(self._last)

    def forget(self) -> None:
        """Close the connections in a copy of this process, which a fork has made."""
        for connection in (self._server, *self._peers):
            os.close(connection.detach())

    def _send(self, line: bytes) -> None:
        for peer in [*self._peers]:
            with suppress(OSError):
                peer.send(line)

    def _listen(self) -> None:
        """Accept connections, read what the others send, and end when it is time."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._server, selectors.EVENT_READ, None)
            while not self._last:
                for key, _ in selector.select(0.5):
                    if key.data is None:
                        with suppress(OSError):  # it is closed already
                            connection = _kept(self._server.accept()[0])
                            connection.setblocking(False)
                            selector.register(connection, selectors.EVENT_READ, _Peer())
                    elif not self._receive(key.fileobj, key.data):  # type: ignore[arg-type]
                        selector.unregister(key.fileobj)
                if self._due and time.monotonic() >= self._due[0]:
                    ending.end(*self._due[1:])
                    return

    def _receive(self, connection: socket.socket, peer: _Peer) -> bool:
        """Read what another process has sent; return whether it may send more."""
        why = _GONE
        try:
            data = connection.recv(4096)
        except BlockingIOError:
            return True
        except TimeoutError:
            data, why = b"", _SILENT
        except OSError:
            data = b""
        peer.received += data
        *lines, peer.received = peer.received.split(b"\n")
        for line in lines:
            words = line.decode(errors="replace")
            if peer.rank >= 0:
                self._end_with(peer, *words.split(" ", 1))
                return False
            if not self._greet(connection, peer, words):
                return False
        if not data and peer.rank >= 0:
            self._end_at(0, 1, f"on {peer.host}, rank {peer.rank} {why}")
        return bool(data)

    def _greet(self, connection: socket.socket, peer: _Peer, words: str) -> bool:
        """Take the first line of a connection; return whether a process of this run has sent it."""
        token, rank, host = [*words.split(" ", 2), "", ""][:3]
        if token != self._token or not rank.isdecimal():
            return False
        peer.rank, peer.host = int(rank), host
        with self._lock:
            self._peers[connection] = peer
            with suppress(OSError):
                connection.send(self._decision)
        self.missing.discard(peer.rank)
        if not self.missing:
            self.all_here.set()
        return True

    def _end_with(self, peer: _Peer, status: str, reason: str = "") -> None:
        """End as another process ends, unless that one has finished its work."""
        number = int(status)
        if number == 0:
            return
        signalled = not reason or number in {ending.TERMINATED, ending.INTERRUPTED}
        patience = _FAILED if number == BAD_INPUT else _SIGNALLED if signalled else 0
        self._end_at(patience, number, reason and f"on {peer.host}, {reason}")

    def _end_at(self, patience: float, status: int, reason: str) -> None:
        due = (time.monotonic() + patience, status, reason)
        self._due = self._due or due


class Other(Lifeline):
    """The connection of another process.

    Args:
        place: where the first one listens.
        address: its machine.
        rank: the rank of this process.
        speaks: whether this process reports that the first one has gone.
    """

    def __init__(self, place: str, address: str, rank: int, speaks: bool) -> None:
        port, token, self._host = place.split(" ", 2)
        self._rank, self._speaks = rank, speaks
        self._left = False
        self._decided: bool | None = None
        self._has_decided = threading.Event()
        self._connection = _kept(socket.create_connection((address, int(port)), _CONNECTS))
        self._connection.settimeout(None)
        self._connection.sendall(f"{token} {rank} {socket.gethostname()}\n".encode())
        threading.Thread(target=self._listen, daemon=True).start()

    def decide(self, decision: Callable[[], bool]) -> bool:
        """Return what the first process has decided."""
        self._has_decided.wait()
        return bool(self._decided)

    def leave(self, status: int, reason: str = "") -> None:
        """Tell the first process how this one ends."""
        self._left = True
        line = f"{status} {reason and f'rank {self._rank}: {reason}'}"
        with suppress(OSError):
            self._connection.sendall(f"{' '.join(line.splitlines())}\n".encode())

    def forget(self) -> None:
        """Close the connection in a copy of this process, which a fork has made."""
        os.close(self._connection.detach())

    def _listen(self) -> None:
        """Read what the first process sends, and end when it ends."""
        why = _GONE
        try:
            with self._connection.makefile() as lines:
                for line in lines:
                    first, second = line.rstrip("\n").split(" ", 1)
                    if first == "decided":
                        self._decided = second == "1"
                        self._has_decided.set()
                    elif int(first):
                        ending.end(int(first), "")
                        return
                    else:
                        return
        except TimeoutError:
            why = _SILENT
        except OSError:
            pass
        if not self._left:
            ending.end(1, f"on {self._host}, rank 0 {why}", speaks=self._speaks)


def _kept(connection: socket.socket) -> socket.socket:
    """Let the system find out when the other machine has gone; return the connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in (
        ("TCP_KEEPIDLE", _ASKED_AFTER),
        ("TCP_KEEPINTVL", _ASKED_AFTER),
        ("TCP_KEEPCNT", _ASKED),
        ("TCP_USER_TIMEOUT", 1000 * _ASKED_AFTER * (_ASKED + 1)),
    ):
        if option := getattr(socket, name, None):  # as far as the system has it
            connection.setsockopt(socket.IPPROTO_TCP, option, seconds)
    return connection
