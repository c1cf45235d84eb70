"""A run in a job of SLURM: the processes that `srun` starts, and a job that is started again.

`srun` numbers the processes of a step in variables that begin with SLURM_. A process on its own, in
a job or on a login node, starts the others itself, as on any machine.
"""

import os
from pathlib import Path

from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment

from simulmt.ending import TORCHRUN
from simulmt.errors import UserError
from simulmt.run_directory import LAST, read_provenance

_PORTS = range(15_000, 31_384)
"""Ports at which the processes of a step meet, below those that the system hands out."""
_OTHERS = {TORCHRUN, "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MASTER_ADDR"}
"""Environment variables of other launchers, and of a user who starts each process by hand."""
_STEPS = 16
"""A job has ports for as many steps at the same time."""


def check_tasks(nodes: int, devices: int) -> None:
    """Refuse a run of several processes if SLURM has started another number of them.

    Args:
        nodes: the machines of the run.
        devices: its processes on each of them.

    Raises:
        UserError: Lightning would wait for the others for ever, or train several runs.
    """
    step = _step()
    if step is None:
        if "SLURM_JOB_ID" in os.environ and nodes > 1 and _OTHERS.isdisjoint(os.environ):
            raise UserError(
                f"trainer.nodes is {nodes}, but srun has not started this process, so nothing "
                "starts those on the other machines: write `srun python train.py ...`"
            )
        return
    tasks, machines = step
    if tasks == 1 and nodes == 1:  # it starts the others itself
        return
    if (tasks, machines) != (nodes * devices, nodes):
        raise UserError(
            f"srun has started {tasks} processes on {machines} machines, but trainer.nodes is "
            f"{nodes} and trainer.devices is {devices}; give srun --nodes={nodes} "
            f"--ntasks-per-node={devices}, or train.py trainer=ddp trainer.nodes={machines} "
            f"trainer.devices={tasks // machines}"
        )


def step_environment() -> ClusterEnvironment | None:
    """Return the ranks and addresses of `srun`'s processes for Lightning; None without `srun`.

    Left to itself, Lightning recognises a job by its name and by options of `sbatch` that a step
    need not share, lets all steps of a job meet at one port, and on SIGUSR1 writes checkpoints of
    its own.
    """
    step = _step()
    if step is None or step[0] == 1:
        return None
    tasks, machines = step
    first = SLURMEnvironment.resolve_root_node_address(os.environ["SLURM_STEP_NODELIST"])
    place = _STEPS * int(os.environ["SLURM_JOB_ID"]) + int(os.environ["SLURM_STEP_ID"])
    os.environ.setdefault("MASTER_ADDR", first)
    os.environ.setdefault("MASTER_PORT", str(_PORTS[place % len(_PORTS)]))
    os.environ["SLURM_NTASKS_PER_NODE"] = str(tasks // machines)  # of the step, not of the job
    return SLURMEnvironment(auto_requeue=False)


def choose_resume(ckpt_path: str | None, folder: Path) -> str | None:
    """Return what a run resumes from: its last checkpoint in a job that SLURM has started again.

    Args:
        ckpt_path: the user's choice.
        folder: the run directory. A run of another job, which this one may have been about to
            replace, is not resumed.
    """
    again = os.environ.get("SLURM_RESTART_COUNT", "0") != "0"
    if not again or not (folder / LAST).is_file():
        return ckpt_path
    provenance = read_provenance(folder)
    ours = provenance is not None and provenance.job == os.environ.get("SLURM_JOB_ID")
    return "last" if ours else ckpt_path


def _step() -> tuple[int, int] | None:
    """Return the processes and the machines of `srun`'s step; None outside of one."""
    if "SLURM_STEP_NUM_TASKS" not in os.environ or TORCHRUN in os.environ:
        return None
    tasks, machines = (int(os.environ[f"SLURM_STEP_NUM_{what}"]) for what in ("TASKS", "NODES"))
    return tasks, machines
