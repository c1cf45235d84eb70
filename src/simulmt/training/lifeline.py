"""A connection from each process of a run to the first one: when one has gone, all end.

A collective operation whose partner has gone fails at once, or after half an hour, or never; it
depends on the backend and on the network. So a process that has gone is found in another way. The
system closes the connections of a process however it ends, and asks a machine that is silent for
five seconds whether it is still there. A process may compute, wait or be stopped as long as it
likes: the system answers for it.

A process that ends by itself says so in its last words, a line `STATUS REASON`; the reason is empty
if it has been printed. Only the first process hears the others.
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
from datetime import timedelta

from torch.distributed import (  # type: ignore[attr-defined]
    DistError,
    DistNetworkError,
    TCPStore,
)

from simulmt import ending
from simulmt.ending import BAD_INPUT
from simulmt.errors import UserError
from simulmt.training.launch import Launch

ARRIVAL = 600
"""Seconds within which all processes of a run have to start."""
_ASKED_AFTER, _ASKED = 5, 3
"""Seconds of silence after which, and how often, the system asks whether a machine is there."""
_SIGNALLED, _FAILED = 1.0, 5.0
"""Seconds that the first process waits for its own signal or error before it tells another's."""
_STORED = "simulmt/{restart}/lifeline"


class Lifeline:
    """The connection of a process that is alone, or that another one has started."""

    def decide(self, decision: Callable[[], bool]) -> bool:
        """Return what the first process decides, once it has."""
        return decision()

    def leave(self, status: int, reason: str = "") -> None:
        """Say the last words."""


@dataclass
class _Guest:
    """Another process, to the first one; a stranger until it has said the token."""

    rank: int = -1
    host: str = ""
    heard: bytes = b""


class _First(Lifeline):
    """The connections of the first process.

    Args:
        ranks: those of the others.
        store: what they meet at.
    """

    def __init__(self, ranks: Sequence[int], store: TCPStore) -> None:
        self._store = store  # which serves the others as long as it is here
        self._missing = {*ranks}
        self._all_here = threading.Event()
        self._guests: dict[socket.socket, _Guest] = {}
        self._decision = self._last = b""
        self._due: tuple[float, int, str] | None = None
        self._lock = threading.Lock()
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        self._server = socket.create_server(("", 0), family=family, dualstack_ipv6=both)
        self._token = secrets.token_hex(8)
        self.place = f"{self._server.getsockname()[1]} {self._token} {socket.gethostname()}"
        threading.Thread(target=self._listen, daemon=True).start()

    def wait(self) -> None:
        """Wait for the others: what happens to them from then on is seen.

        Raises:
            UserError: some do not come in time.
        """
        if not self._all_here.wait(ARRIVAL):
            raise UserError(_absent(f"rank {', '.join(map(str, sorted(self._missing)))}"))

    def decide(self, decision: Callable[[], bool]) -> bool:
        """Return the decision, and tell it the others."""
        chosen = decision()
        with self._lock:
            self._decision = b"decided %d\n" % chosen
            self._send(self._decision)
        return chosen

    def leave(self, status: int, reason: str = "") -> None:
        """Say the last words; what the others say is of no concern any more."""
        self._last = self._last or b"%d \n" % status
        self._send(self._last)

    def forget(self) -> None:
        """Leave the connections to the process that this one is a copy of."""
        for connection in (self._server, *self._guests):
            os.close(connection.detach())

    def _send(self, line: bytes) -> None:
        for guest in [*self._guests]:
            with suppress(OSError):
                guest.send(line)

    def _listen(self) -> None:
        """Greet and hear the others."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._server, selectors.EVENT_READ, None)
            while not self._last:
                for key, _ in selector.select(0.5):
                    if key.data is None:
                        connection = _kept(self._server.accept()[0])
                        connection.setblocking(False)
                        selector.register(connection, selectors.EVENT_READ, _Guest())
                    elif not self._hear(key.fileobj, key.data):  # type: ignore[arg-type]
                        selector.unregister(key.fileobj)
                if self._due and time.monotonic() >= self._due[0]:
                    ending.end(*self._due[1:])
                    return

    def _hear(self, connection: socket.socket, guest: _Guest) -> bool:
        """Take what another process says; return whether it may say more."""
        why = f"rank {guest.rank} has gone without a word: it was killed, or it crashed"
        try:
            said = connection.recv(4096)
        except BlockingIOError:
            return True
        except TimeoutError:
            said, why = b"", f"rank {guest.rank} is out of reach: its machine does not answer"
        except OSError:
            said = b""
        guest.heard += said
        *lines, guest.heard = guest.heard.split(b"\n")
        for line in lines:
            words = line.decode(errors="replace")
            if guest.rank >= 0:
                self._end_with(guest, *words.split(" ", 1))
                return False
            if not self._greet(connection, guest, words):
                return False
        if not said and guest.rank >= 0:
            self._end_at(0, 1, f"on {guest.host}, {why}")
        return bool(said)

    def _greet(self, connection: socket.socket, guest: _Guest, words: str) -> bool:
        """Return whether it is a process of this run."""
        token, rank, host = [*words.split(" ", 2), "", ""][:3]
        if token != self._token or not rank.isdecimal():
            return False
        guest.rank, guest.host = int(rank), host
        with self._lock:
            self._guests[connection] = guest
            with suppress(OSError):
                connection.send(self._decision)
        self._missing.discard(guest.rank)
        if not self._missing:
            self._all_here.set()
        return True

    def _end_with(self, guest: _Guest, status: str, reason: str = "") -> None:
        """End with a process that has said its last words, unless it has done its work."""
        number = int(status)
        if number == 0:
            return
        signalled = not reason or number in {ending.TERMINATED, ending.INTERRUPTED}
        patience = _FAILED if number == BAD_INPUT else _SIGNALLED if signalled else 0
        self._end_at(patience, number, reason and f"on {guest.host}, {reason}")

    def _end_at(self, patience: float, status: int, reason: str) -> None:
        due = (time.monotonic() + patience, status, reason)
        self._due = self._due or due


class _Other(Lifeline):
    """The connection of another process.

    Args:
        place: where the first one listens.
        address: its machine.
        rank: the rank of this process.
        speaks: whether this process tells that the first one has gone.
    """

    def __init__(self, place: str, address: str, rank: int, speaks: bool) -> None:
        port, token, self._host = place.split(" ", 2)
        self._rank, self._speaks = rank, speaks
        self._left = False
        self._decided: bool | None = None
        self._heard = threading.Event()
        self._connection = _kept(socket.create_connection((address, int(port)), ARRIVAL))
        self._connection.settimeout(None)
        self._connection.sendall(f"{token} {rank} {socket.gethostname()}\n".encode())
        threading.Thread(target=self._listen, daemon=True).start()

    def decide(self, decision: Callable[[], bool]) -> bool:
        """Return what the first process has decided."""
        self._heard.wait()
        return bool(self._decided)

    def leave(self, status: int, reason: str = "") -> None:
        """Say the last words to the first process."""
        self._left = True
        line = f"{status} {reason and f'rank {self._rank}: {reason}'}"
        with suppress(OSError):
            self._connection.sendall(f"{' '.join(line.splitlines())}\n".encode())

    def forget(self) -> None:
        """Leave the connection to the process that this one is a copy of."""
        os.close(self._connection.detach())

    def _listen(self) -> None:
        """Hear the first process, and end with it."""
        why = "has gone without a word: it was killed, or it crashed"
        try:
            with self._connection.makefile() as lines:
                for line in lines:
                    first, second = line.rstrip("\n").split(" ", 1)
                    if first == "decided":
                        self._decided = second == "1"
                        self._heard.set()
                    elif int(first):
                        ending.end(int(first), "")
                        return
                    else:
                        return
        except TimeoutError:
            why = "is out of reach: its machine does not answer"
        except OSError:
            pass
        if not self._left:
            ending.end(1, f"on {self._host}, rank 0 {why}", speaks=self._speaks)


def join(launch: Launch) -> Lifeline:
    """Connect this process to the others of its run, and let it end with them.

    Raises:
        UserError: the port of the run is taken, or another process does not come in time.
    """
    others = [rank for rank in launch.members if rank]
    if not others:
        return Lifeline()
    name = _STORED.format(restart=os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    line: _First | _Other
    try:
        store = _store(launch)
        if launch.rank == 0:
            line = _First(others, store)
            ending.tell_with(line.leave)
            store.set(name, line.place)
            line.wait()
        else:
            place, address = store.get(name).decode(), launch.environment.main_address
            line = _Other(place, address, launch.rank, launch.rank == others[0])
    except (DistError, OSError):
        raise UserError(_absent("rank 0")) from None
    ending.tell_with(line.leave)
    os.register_at_fork(after_in_child=line.forget)
    return line


def _store(launch: Launch) -> TCPStore:
    """Return the store at the run's port: that of torchrun, or of the first process.

    Torch's process group joins the same store later.
    """
    address, port = launch.environment.main_address, launch.environment.main_port
    of_torchrun = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    try:
        return TCPStore(
            address,
            port,
            is_master=launch.rank == 0 and not of_torchrun,
            timeout=timedelta(seconds=ARRIVAL),
            wait_for_workers=False,
            multi_tenant=True,
        )
    except DistNetworkError:
        if launch.rank:
            raise
        raise UserError(
            f"port {port} of {address} is taken: give the run another one (MASTER_PORT, or "
            "--master-port of torchrun)"
        ) from None


def _kept(connection: socket.socket) -> socket.socket:
    """Let the system find out that the other machine is gone; return the connection."""
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


def _absent(ranks: str) -> str:
    return (
        f"{ranks} of this run did not come within {ARRIVAL // 60} minutes: start the same command "
        "on all machines, and let their ports reach one another"
    )
