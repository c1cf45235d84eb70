"""A run within a sweep: skipped if finished, resumed if half-trained, else trained.

A single run replaces the run in its directory: the user who repeats its command wants it trained
again. A user who repeats the command of a sweep, after an interruption or with more values, wants
the missing runs.

Each run trains in a process of its own, `python -m simulmt.programs.sweep FOLDER CKPT`, so that its
failure (out of memory, say) affects no other run, and the several processes of one run
(trainer=ddp) are no part of Hydra's sweep. That process reads the configuration that Hydra wrote
into the run directory. For several processes Lightning repeats the command, so that all of them
read the same file.
"""

import logging
import math
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from simulmt.console import console, say
from simulmt.disk import explain
from simulmt.errors import UserError
from simulmt.metrics import read_columns
from simulmt.processes import end_with, is_first_process
from simulmt.programs.choices import Sweep, check_choices
from simulmt.programs.outcome import SWEEP_ID, Outcome, read_outcome, write_outcome
from simulmt.programs.plain import plain
from simulmt.programs.train import train
from simulmt.run_directory import HYDRA_CONFIG, LOG, OUTCOME
from simulmt.training.resume import State, best_selection, read_state

FAILED = -10_000.0
"""The value of a failed run for the sweeper: below every value that `selection` returns."""
ENDS_WITH = "SIMULMT_ENDS_WITH"
"""Environment variable with the id of the parent process, with which a run of a sweep ends."""
_OF_PROCESSES = ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def sweep_run(cfg: DictConfig, folder: Path, number: int) -> float:
    """Train a run of a sweep unless it is finished; a failure raises nothing.

    Args:
        cfg: the configuration of the run.
        folder: the run directory.
        number: the place of the run in the sweep.

    Returns:
        The value that a sweeper maximises (see `value`).
    """
    began = time.monotonic()
    sweep = os.environ.get(SWEEP_ID, "")
    if sweep and not sweep.startswith(f"{os.getpid()}-"):  # a launcher's worker
        end_with(os.getppid())
    try:
        config = plain(cfg)
        choices = check_choices(config)
        if not (folder / HYDRA_CONFIG).is_file():
            raise UserError("a sweep needs hydra.output_subdir=.hydra; leave it as it is")
        outcome = _run(config, folder, choices.sweep)
    except Exception as error:  # the other runs of the sweep go on
        outcome = replace(_failure(error), tries=0)
    seconds = round(time.monotonic() - began, 1)
    try:
        write_outcome(folder, replace(outcome, seconds=seconds, sweep=sweep, number=number))
    except UserError as error:  # the disk is full: the next run may have room
        outcome = replace(outcome, outcome="failed", reason=outcome.reason or str(error))
    line = f"{folder.name}: {outcome.outcome}{': ' if outcome.reason else ''}{outcome.reason}"
    console.print(line, markup=False, soft_wrap=True)
    return FAILED if outcome.outcome == "failed" else value(folder)


def _failure(error: Exception) -> Outcome:
    """Return the outcome of an exception; print the traceback unless a user can put it right."""
    if isinstance(error, UserError):
        return Outcome("failed", str(error))
    if isinstance(error, OSError):
        return Outcome("failed", explain(error))
    traceback.print_exception(error)
    return Outcome("failed", f"{type(error).__name__}: {error}".splitlines()[0])


def _run(config: Mapping[str, Any], folder: Path, options: Sweep) -> Outcome:
    """Train a run until it is finished or has failed too often."""
    state = State("new", "sweep.restart=true") if options.restart else read_state(folder, config)
    if state.kind == "finished":
        return Outcome("skipped", "finished before", 0)
    reasons = [state.reason] if state.reason else []
    done = Outcome("resumed" if state.kind == "half" else "trained")
    for tries in range(1, options.retries + 2):
        status = _start(folder, _ckpt_path(config, state))
        if status:
            failure = _explain(status, folder)
            reasons.append(f"try {tries} failed: {failure}")
            state = read_state(folder, config)
        if status == 0 or state.kind == "finished":  # or only the exit failed
            return replace(done, reason="; ".join(reasons), tries=tries)
        if status == 2:  # a bad option stays bad
            return Outcome("failed", failure, tries)
    return Outcome("failed", "; ".join(reasons), options.retries + 1)


def _ckpt_path(config: Mapping[str, Any], state: State) -> str:
    """Return the checkpoint to resume from: the run's own last one, or the user's."""
    if state.kind != "new":
        return "last"
    ckpt_path = config["ckpt_path"] or ""
    return "" if ckpt_path == "last" else str(ckpt_path)


def _start(folder: Path, ckpt_path: str) -> int:
    """Train in another process, which ends with this one; return its exit status."""
    (folder / OUTCOME).unlink(missing_ok=True)
    environment = {k: v for k, v in os.environ.items() if k not in _OF_PROCESSES}
    environment["SLURM_JOB_NAME"] = "interactive"  # or Lightning leaves it to srun to start more
    environment[ENDS_WITH] = str(os.getpid())
    command = [sys.executable, "-m", "simulmt.programs.sweep", str(folder), ckpt_path]
    try:
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False)
    except KeyboardInterrupt:
        say("interrupted: the same command trains the runs that are not finished")
        raise
    return done.returncode


def _explain(status: int, folder: Path) -> str:
    """Return why the process ended with this status."""
    if outcome := read_outcome(folder):
        return outcome.reason
    if status >= 0:
        return f"exit status {status}"
    name = signal.Signals(-status).name
    return f"killed by {name}{' (out of memory?)' if name == 'SIGKILL' else ''}"


def value(folder: Path) -> float:
    """Return the value that the sweeper maximises: `valid/selection` of the best checkpoint.

    The value is BLEU on the development set, or negative outside `trainer.dal_range`
    (`simulmt.training.callbacks.selection`). A sweeper never sees the test set.
    """
    values = [value for (value,) in read_columns(folder, "valid/selection")]
    finite = [*filter(math.isfinite, values)]
    return max(finite) if finite else best_selection(folder, FAILED)  # the metrics may be lost


def main(folder: Path, ckpt_path: str) -> int:
    """Train in this process; after a failure the run directory holds its reason.

    Args:
        folder: the run directory.
        ckpt_path: the checkpoint to resume from; empty for none.

    Returns:
        The exit status: 0 after success, 2 for what a user can put right, else 1.
    """
    logging.raiseExceptions = False  # as in a run of its own
    try:
        config = OmegaConf.load(folder / HYDRA_CONFIG)
        assert isinstance(config, DictConfig)
        config.ckpt_path = ckpt_path or None
        if is_first_process():
            form = "[%(asctime)s][%(name)s][%(levelname)s] - %(message)s"  # Hydra's
            logging.basicConfig(filename=folder / LOG, level=logging.INFO, format=form)
        train(config, str(folder))
    except Exception as error:
        failure = _failure(error)
        try:
            write_outcome(folder, failure)
        except UserError:  # the disk is full
            print(f"error: {failure.reason}", file=sys.stderr)
        return 2 if isinstance(error, UserError) else 1
    return 0


if __name__ == "__main__":
    end_with(int(os.environ[ENDS_WITH]))
    os.environ[ENDS_WITH] = str(os.getpid())  # for the processes that Lightning starts
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
