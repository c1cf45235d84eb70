"""How the processes of a run that a launcher has started find one another."""

import os
from datetime import timedelta

from torch.distributed import (  # type: ignore[attr-defined]
    DistError,
    DistNetworkError,
    TCPStore,
)

from simulmt import ending
from simulmt.errors import UserError
from simulmt.training.launch import Launch
from simulmt.training.lifeline import First, Lifeline, Other

_ARRIVAL = 600
"""Seconds within which all processes of a run have to start."""
_STORED = "simulmt/{restart}/lifeline"
"""Key under which the first process stores where it listens; torchrun may restart a run."""


def join(launch: Launch) -> Lifeline:
    """Connect this process to the others of its run, so that all end together.

    Returns:
        The connections of this process.

    Raises:
        UserError: the port of the run is taken, or another process does not come in time.
    """
    others = [rank for rank in launch.members if rank]
    if not others:
        return Lifeline()
    name = _STORED.format(restart=os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    line: First | Other
    try:
        store = _store(launch)
        if launch.rank == 0:
            line = First(others, store)
            ending.tell_with(line.leave)
            store.set(name, line.place)
            if not line.all_here.wait(_ARRIVAL):
                raise UserError(_absent(f"rank {', '.join(map(str, sorted(line.missing)))}"))
        else:
            place, address = store.get(name).decode(), launch.environment.main_address
            line = Other(place, address, launch.rank, launch.rank == others[0])
    except (DistError, OSError):
        raise UserError(_absent("rank 0")) from None
    ending.tell_with(line.leave)
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=line.forget)
    return line


def _store(launch: Launch) -> TCPStore:
    """Return the store at the run's port, which torchrun or the first process serves.

    Torch's process group joins the same store later.
    """
    address, port = launch.environment.main_address, launch.environment.main_port
    of_torchrun = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    try:
        return TCPStore(
            address,
            port,
            is_master=launch.rank == 0 and not of_torchrun,
            timeout=timedelta(seconds=_ARRIVAL),
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


def _absent(ranks: str) -> str:
    return (
        f"{ranks} of this run did not come within {_ARRIVAL // 60} minutes: start the same command "
        "on all machines, and let their ports reach one another"
    )
