"""A run within a sweep: skipped if finished, resumed if half-trained, else trained.

A single run replaces the run in its directory: the user who repeats its command wants it trained
again. A user who repeats the command of a sweep, after an interruption or with more values, wants
the missing runs.

Each run trains in a process of its own, so that its failure (out of memory, say) affects no other
run, and the several processes of one run (trainer=ddp) are no part of Hydra's sweep.
"""

from __future__ import annotations

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

from omegaconf import DictConfig

from simulmt.console import console, say
from simulmt.errors import UserError
from simulmt.processes import end_with
from simulmt.programs.choices import Sweep, check_choices
from simulmt.programs.one_run import ENDS_WITH
from simulmt.programs.outcome import SWEEP_ID, Outcome, read_outcome, write_outcome
from simulmt.programs.plain import plain
from simulmt.run_directory import HYDRA_CONFIG, OUTCOME, read_columns
from simulmt.training.state import State, read_state

FAILED = -10_000.0
"""The value of a failed run for the sweeper: below every value that `selection` returns."""
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
    except UserError as error:
        outcome = Outcome("failed", str(error), 0)
    except Exception as error:  # the other runs of the sweep go on
        traceback.print_exc()
        outcome = Outcome("failed", f"{type(error).__name__}: {error}".splitlines()[0], 0)
    seconds = round(time.monotonic() - began, 1)
    write_outcome(folder, replace(outcome, seconds=seconds, sweep=sweep, number=number))
    line = f"{folder.name}: {outcome.outcome}{': ' if outcome.reason else ''}{outcome.reason}"
    console.print(line, markup=False, soft_wrap=True)
    return FAILED if outcome.outcome == "failed" else value(folder)


def _run(config: Mapping[str, Any], folder: Path, options: Sweep) -> Outcome:
    """Train a run until it is finished or has failed too often."""
    state = State("new", "sweep.restart=true") if options.restart else read_state(folder, config)
    if state.kind == "finished":
        return Outcome("skipped", state.reason or "finished before", 0)
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
    command = [sys.executable, "-m", "simulmt.programs.one_run", str(folder), ckpt_path]
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
    values = read_columns(folder, "valid/selection")
    return max((value for (value,) in values), default=FAILED)
