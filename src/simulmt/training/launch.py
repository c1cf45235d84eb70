"""The processes of a run: torch's elastic agent starts them on one machine, or torchrun or srun do.

Torch's agent repeats the command line of this process for each rank. It ends all ranks as soon as
one fails or a signal comes.
"""

import logging
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import NoReturn

from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, get_error_handler
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from simulmt.errors import UserError
from simulmt.system.disk import explain
from simulmt.system.ending import (
    BAD_INPUT,
    ENDS_WITH,
    end,
    is_first,
    is_worker,
    killed_by,
    launched,
)

_PATIENCE = 8
"""Seconds that the ranks have to end after a signal."""
_BEFORE_OTHERS = 5.0
"""Seconds that a rank with an error waits for its end: another rank may be the cause."""
_REMEDY = "the same command with ckpt_path=last resumes from the last validation"


def find_environment(nodes: int, devices: int) -> ClusterEnvironment | None:
    """Return what tells this process its rank; None if it has to start the processes itself.

    Args:
        nodes: the machines of the run.
        devices: its processes on each of them.

    Raises:
        UserError: another number of processes was started, or nothing has started those on the
            other machines.
    """
    warnings.filterwarnings("ignore", ".*`srun` command is available")  # on any cluster
    environment: ClusterEnvironment
    if TorchElasticEnvironment.detect():
        environment = TorchElasticEnvironment()
    elif int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        environment = _step_environment()
    elif nodes > 1:
        raise UserError(
            f"trainer.nodes is {nodes}, but nothing has started this process on {nodes} machines: "
            f"type `torchrun --nnodes={nodes} --nproc-per-node={devices} --node-rank=NUMBER "
            "--master-addr=HOST --master-port=PORT train.py ...` on each of them, or "
            "`srun python train.py ...` in a job of SLURM"
        )
    else:
        return None if devices > 1 else LightningEnvironment()
    named = f"trainer.devices={devices} and trainer.nodes={nodes} are not what was started"
    if (started := environment.world_size()) != nodes * devices:  # or they wait for ever
        raise UserError(f"{named}, which is {started} processes: give both the same numbers")
    try:
        environment.validate_settings(devices, nodes)
    except ValueError as error:
        raise UserError(f"{named}: {error}") from None
    return environment


def _step_environment() -> SLURMEnvironment:
    """Return the environment of srun's step, which may be a part of the job.

    Lightning lets all steps of a job meet at the same port.
    """
    tasks, nodes = (int(os.environ[f"SLURM_STEP_NUM_{name}"]) for name in ("TASKS", "NODES"))
    number = 16 * int(os.environ["SLURM_JOB_ID"]) + int(os.environ["SLURM_STEP_ID"])
    first = SLURMEnvironment.resolve_root_node_address(os.environ["SLURM_STEP_NODELIST"])
    os.environ.setdefault("MASTER_ADDR", first)
    os.environ.setdefault("MASTER_PORT", str(15_000 + number % 16_384))
    os.environ["SLURM_NNODES"] = str(nodes)
    os.environ["SLURM_NTASKS_PER_NODE"] = str(tasks // nodes)
    return SLURMEnvironment(auto_requeue=False)


def run_ranks(devices: int) -> None:
    """Run the command line of this process in several processes, and end as they end.

    Args:
        devices: the number of processes.

    Raises:
        UserError: the first error of a rank that a user can put right.
        RuntimeError: another error of a rank, with its traceback.
        SystemExit: a signal has ended this process or a rank.
    """
    quiet = logging.getLogger("torch.distributed.elastic")  # the line of this program says it all
    quiet.propagate = False
    quiet.addHandler(logging.NullHandler())
    # as Lightning would divide them; the last digits depend on this number
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (cores or 1) // devices)))
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # a lost connection: 100 lines
    os.environ[ENDS_WITH] = str(os.getpid())
    words = [word.replace("$", "$$") for word in sys.orig_argv[1:]]  # torch fills in templates
    try:
        with TemporaryDirectory() as folder:  # for the errors of the ranks
            config = LaunchConfig(
                min_nodes=1,
                max_nodes=1,
                nproc_per_node=devices,
                run_id="simulmt",
                rdzv_backend="c10d",
                rdzv_endpoint="localhost:0",
                local_addr="localhost",
                max_restarts=0,
                logs_specs=DefaultLogsSpecs(folder),
                signals_to_handle="SIGTERM,SIGINT",
                shutdown_timeout=_PATIENCE,
            )
            elastic_launch(config, sys.executable)(*words)
    except SignalException as error:
        name = "interrupted" if error.sigval == signal.SIGINT else "terminated"
        end(128 + error.sigval, f"{name}; {_REMEDY}")
    except ChildFailedError as error:
        _fail(error)
    finally:
        del os.environ[ENDS_WITH]


def _fail(error: ChildFailedError) -> NoReturn:
    """Raise the first error of the ranks: one that a user can put right, else that seen first."""
    failures = sorted(error.failures.items(), key=lambda failure: failure[1].exitcode != BAD_INPUT)
    rank, failure = failures[0]
    said = failure.error_file_data["message"]
    if failure.exitcode == BAD_INPUT and isinstance(said, dict):
        raise UserError(said["message"].removeprefix("UserError: ")) from None
    if isinstance(said, dict):
        raise RuntimeError(f"rank {rank}: {said['message']}\n{said['extraInfo']['py_callstack']}")
    status = 128 - failure.exitcode if failure.exitcode < 0 else failure.exitcode
    why = f"was {killed_by(status - 128)}" if status > 128 else f"ended with status {status}"
    end(status, f"rank {rank} {why}; {_REMEDY}")


@contextmanager
def reported() -> Iterator[None]:
    """Let the process that speaks for the run report an error of this one, once.

    If torchrun or srun has started the ranks, the first one speaks; the others wait a moment for
    their end, so that an error that all of them meet is printed once. So does a rank whose partner
    was killed: the launcher ends it, too.
    """
    try:
        yield
    except Exception as error:
        if is_worker():
            known = UserError(explain(error)) if isinstance(error, OSError) else error
            get_error_handler().record_exception(known)
            sys.exit(BAD_INPUT if isinstance(known, UserError) else 1)
        if launched()[1] > 1 and not (is_first() and isinstance(error, UserError)):
            time.sleep(_BEFORE_OTHERS)
        raise
