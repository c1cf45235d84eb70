"""How the processes of a run were started: by Lightning, torchrun, SLURM or by hand."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.plugins.environments.lsf import LSFEnvironment
from lightning_fabric.plugins.environments.mpi import MPIEnvironment
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from simulmt.ending import follows
from simulmt.errors import UserError
from simulmt.training.slurm import check_tasks, step_environment

_LAUNCHERS: Mapping[str, type[ClusterEnvironment]] = {
    "torchrun": TorchElasticEnvironment,
    "LSF": LSFEnvironment,
    "mpirun": MPIEnvironment,
}
"""In Lightning's order: torchrun may run within SLURM."""
SRUN = "`srun` command is available"
"""Lightning's warning on any cluster."""


class OwnPort(LightningEnvironment):
    """A run on one machine whose processes Lightning starts, at a port of its own.

    Lightning chooses a free port and binds it later, when another run may have chosen the same
    one. Here a store binds the port at once, and torch's process group joins that store.
    """

    def __init__(self) -> None:
        super().__init__()
        self._store = TCPStore(
            "127.0.0.1", 0, is_master=True, wait_for_workers=False, multi_tenant=True
        )

    @property
    def creates_processes_externally(self) -> bool:
        """Return that Lightning starts the other processes."""
        return False

    @property
    def main_address(self) -> str:
        """Return this machine; the environment may name that of another run."""
        return "127.0.0.1"

    @property
    def main_port(self) -> int:
        """Return the port of the store."""
        return int(self._store.port)


@dataclass(frozen=True)
class Launch:
    """How this process was started, and its place in the run.

    Attributes:
        environment: What Lightning asks for ranks and addresses.
        rank: The rank of this process, from 0.
        members: The ranks that connect to one another; empty for a process that Lightning has
            started, because it ends with its parent.
    """

    environment: ClusterEnvironment
    rank: int
    members: Sequence[int]


def find_launch(nodes: int, devices: int) -> Launch:
    """Return how this process was started.

    Args:
        nodes: the number of machines.
        devices: the number of processes on each of them.

    Raises:
        UserError: the launcher has started another number of processes, or nothing can have started
            those on the other machines.
    """
    check_tasks(nodes, devices)
    launcher, environment = _launcher()
    size = nodes * devices
    if launcher == "torchrun" or (launcher and size > 1):
        _check_started(launcher, environment, nodes, devices)
        return Launch(environment, environment.global_rank(), range(size))
    if launcher:
        return Launch(environment, 0, (0,))
    node = _number("NODE_RANK", 0, nodes - 1)
    local = _number("LOCAL_RANK", 0, devices - 1)
    if size == 1:
        return Launch(environment, 0, (0,))
    if nodes == 1 and "LOCAL_RANK" not in os.environ:
        return Launch(OwnPort(), 0, (0,))
    _check_reachable(nodes, devices)
    if "LOCAL_RANK" not in os.environ:  # Lightning starts the others of this machine
        return Launch(environment, node * devices, range(0, size, devices))
    return Launch(environment, node * devices + local, () if follows() else range(size))


def _launcher() -> tuple[str, ClusterEnvironment]:
    """Return the launcher of this process and its environment; "" for Lightning or by hand."""
    for name, kind in _LAUNCHERS.items():
        if kind.detect():
            return name, kind()
    if step := step_environment():
        return "srun", step
    return "", LightningEnvironment()


def _check_started(
    launcher: str, environment: ClusterEnvironment, nodes: int, devices: int
) -> None:
    """Refuse a launcher that has started another number of processes, in all or on a machine."""
    started = environment.world_size()
    here = int(os.environ.get("LOCAL_WORLD_SIZE", devices))  # torchrun's
    if (started, here) != (nodes * devices, devices):
        remedy = f"trainer.nodes={started // here} trainer.devices={here}"
        raise UserError(
            f"trainer.nodes={nodes} times trainer.devices={devices} is {nodes * devices} processes,"
            f" but {launcher} has started {started}: give "
            f"{remedy if started % here == 0 else 'each machine the same number of them'}"
        )
    try:
        environment.validate_settings(devices, nodes)
    except ValueError as error:
        raise UserError(" ".join(str(error).split())) from None


def _check_reachable(nodes: int, devices: int) -> None:
    """Refuse a process that does not know where the others are."""
    for name in ("MASTER_ADDR", "MASTER_PORT", *["NODE_RANK"] * (nodes > 1)):
        if not os.environ.get(name):
            raise UserError(
                f"trainer.nodes={nodes}, but this process does not know the others ({name} is not "
                f"set): on each machine type `torchrun --nnodes={nodes} --nproc-per-node={devices} "
                "--node-rank=NUMBER --master-addr=HOST --master-port=PORT train.py ...`"
            )
    _number("MASTER_PORT", 1, 65535)


def _number(name: str, least: int, most: int) -> int:
    """Return the number in an environment variable, which must be in a range; 0 if absent."""
    text = os.environ.get(name) or "0"
    if name in os.environ and not (text.isdecimal() and least <= int(text) <= most):
        raise UserError(
            f"{name} is {text!r} in the environment; with these trainer.nodes and trainer.devices "
            f"it must be from {least} to {most}: set it, or unset it for one machine"
        )
    return int(text)
