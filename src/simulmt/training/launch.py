"""The processes of a run: torch's elastic agent starts them on one machine, or torchrun or srun do.

Torch's agent repeats the command line of this process for each rank. It ends all ranks as soon as
one fails or a signal comes.
"""

import logging
import os
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
from simulmt.system import ending
from simulmt.system.cores import cores
from simulmt.system.disk import describe_error

_PATIENCE = 8
"""Seconds that the ranks have to end after a signal."""
_BEFORE_OTHERS = 5.0
"""Seconds that a failed rank waits for the launcher to end it: another may be the cause."""


def find_environment(nodes: int, devices: int) -> ClusterEnvironment | None:
    """Return the environment that gives this process its rank; None if it starts the others itself.

    Args:
        nodes: the number of machines of the run.
        devices: the number of processes on each of them.

    Raises:
        UserError: another number of processes was started, or none on the other machines.
    """
    warnings.filterwarnings("ignore", ".*`srun` command is available")  # on any cluster
    environment: ClusterEnvironment
    if TorchElasticEnvironment.detect():
        environment = TorchElasticEnvironment()
    elif int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        environment = _step_environment()
    elif nodes > 1:
        raise UserError(
            f"trainer.nodes={nodes}, but neither torchrun nor srun has started this process: run "
            f"`torchrun --nnodes={nodes} --nproc-per-node={devices} --node-rank=NUMBER "
            "--master-addr=HOST --master-port=PORT train.py ...` on each machine, or "
            "`srun --kill-on-bad-exit=1 python train.py ...` in a SLURM job"
        )
    else:
        return None if devices > 1 else LightningEnvironment()
    asked = f"trainer.devices={devices} and trainer.nodes={nodes}"
    if (started := environment.world_size()) != nodes * devices:  # or they wait for ever
        raise UserError(
            f"{asked} need {nodes * devices} processes, but {started} were started: give simulmt "
            "the same numbers of nodes and devices as torchrun or srun"
        )
    try:
        environment.validate_settings(devices, nodes)
    except ValueError as error:
        raise UserError(f"{asked} do not match torchrun or srun: {error}") from None
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


def run_ranks(processes: int) -> None:
    """Run the command line of this process in several processes, and end as they end.

    Args:
        processes: their number.

    Raises:
        UserError: the first mistake of a rank that a user can correct.
        RuntimeError: another error of a rank, with its traceback.
        SystemExit: a signal has ended this process or a rank.
    """
    quiet = logging.getLogger("torch.distributed.elastic")  # this program prints one line instead
    quiet.propagate = False
    quiet.addHandler(logging.NullHandler())
    # divided as Lightning does; the last digits of all results depend on this number
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // processes)))
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # or a lost connection prints 100 lines
    os.environ[ending.ENDS_WITH] = str(os.getpid())
    words = [word.replace("$", "$$") for word in sys.orig_argv[1:]]  # torch fills in templates
    try:
        with TemporaryDirectory() as folder:  # for the errors of the ranks
            config = LaunchConfig(
                min_nodes=1,
                max_nodes=1,
                nproc_per_node=processes,
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
        ending.end(128 + error.sigval, ending.STOPPED[error.sigval])
    except ChildFailedError as error:
        _fail(error)
    finally:
        del os.environ[ending.ENDS_WITH]
        ending.handle_signals()  # instead of torch's handlers


def _fail(error: ChildFailedError) -> NoReturn:
    """Raise the first error of the ranks, preferring one that a user can correct."""
    by_rank = error.failures.items()
    rank, failure = min(by_rank, key=lambda item: item[1].exitcode != ending.BAD_INPUT)
    recorded = failure.error_file_data["message"]
    if isinstance(recorded, dict):
        message = recorded["message"]
        if failure.exitcode == ending.BAD_INPUT:
            raise UserError(message.removeprefix("UserError: ")) from None
        raise RuntimeError(f"rank {rank}: {message}\n{recorded['extraInfo']['py_callstack']}")
    status = 128 - failure.exitcode if failure.exitcode < 0 else failure.exitcode
    ending.end(status, f"rank {rank}: {ending.failure(status)}")


@contextmanager
def reported() -> Iterator[None]:
    """Report an error of several ranks once.

    A rank that `run_ranks` has started records its error for the process that started it. Of the
    ranks of torchrun or srun, the first one raises its `UserError` at once. The others wait: the
    launcher ends them as soon as one rank has failed.
    """
    try:
        yield
    except Exception as error:
        if ending.is_worker():
            known = error
            if isinstance(error, OSError) and error.errno is not None:
                known = UserError(describe_error(error))
            get_error_handler().record_exception(known)
            sys.exit(ending.BAD_INPUT if isinstance(known, UserError) else 1)
        if ending.launched()[1] > 1 and not (ending.is_first() and isinstance(error, UserError)):
            time.sleep(_BEFORE_OTHERS)
        raise
