"""A run within a sweep: skipped if it is finished, resumed if it is half-trained, else trained.

A run on its own replaces what it finds, because who types its command again wants it trained; who
types that of a sweep again, after an interruption or with more values, wants what is missing.

Each run is trained in a process of its own. What happens to it, memory that runs out included,
then happens to no other run, and several processes (trainer=ddp) do not meet Hydra's sweep.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from simulmt.errors import UserError
from simulmt.programs.choices import check_choices
from simulmt.programs.outcome import SWEEP_ID, Outcome, read_outcome, write_outcome
from simulmt.programs.plain import plain
from simulmt.run_directory import HYDRA_CONFIG, OUTCOME, read_columns
from simulmt.training import report
from simulmt.training.state import State, read_state

FAILED = -10_000.0
"""Value of a failed run for a sweeper that searches: below all that `selection` gives."""
_PARENT = os.getppid()
_OF_PROCESSES = ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def sweep_run(cfg: DictConfig, folder: Path, number: int) -> float:
    """Do what is missing of a run; nothing that goes wrong with it is raised.

    Args:
        cfg: its configuration.
        folder: its directory.
        number: its place in the sweep.

    Returns:
        What a sweeper that searches makes the most of (see `value`).
    """
    began = time.monotonic()
    try:
        config = plain(cfg)
        check_choices(config)
        if not (folder / HYDRA_CONFIG).is_file():
            raise UserError("a sweep needs hydra.output_subdir=.hydra; leave it as it is")
        outcome, reason, tries = _run(config, folder)
    except UserError as error:
        outcome, reason, tries = "failed", str(error), 0
    except Exception as error:  # the other runs of the sweep go on
        traceback.print_exc()
        outcome, reason, tries = "failed", f"{type(error).__name__}: {error}".splitlines()[0], 0
    seconds = round(time.monotonic() - began, 1)
    sweep = os.environ.get(SWEEP_ID, "")
    write_outcome(folder, Outcome(outcome, reason, tries, seconds, sweep, number))
    line = f"{folder.name}: {outcome}{': ' if reason else ''}{reason}"
    report.console.print(line, markup=False, soft_wrap=True)
    return FAILED if outcome == "failed" else value(folder)


def _run(config: Mapping[str, Any], folder: Path) -> tuple[Any, str, int]:
    """Outcome, reason and number of tries."""
    restart, retries = config["sweep"]["restart"], config["sweep"]["retries"]
    state = State("new", "sweep.restart=true") if restart else read_state(folder, config)
    if state.kind == "finished":
        return "skipped", state.reason or "finished before", 0
    outcome = "resumed" if state.kind == "half" else "trained"
    said = [state.reason] if state.reason else []
    for tries in range(1, retries + 2):
        status = _start(folder, _ckpt_path(config, state))
        if status == 0:
            return outcome, "; ".join(said), tries
        reason = _explain(status, folder)
        said.append(f"try {tries} failed: {reason}")
        state = read_state(folder, config)
        if state.kind == "finished":  # all is written, and only its end went wrong
            return outcome, "; ".join(said), tries
        if status == 2:  # a bad choice stays one
            return "failed", reason, tries
    return "failed", "; ".join(said), tries


def _ckpt_path(config: Mapping[str, Any], state: State) -> str:
    """Where to go on: the run's own last checkpoint, or one that was asked for by name."""
    if state.kind != "new":
        return "last"
    asked = config["ckpt_path"] or ""
    return "" if asked == "last" else str(asked)


def _start(folder: Path, ckpt_path: str) -> int:
    """Train in another process, and wait for it; its exit status."""
    (folder / OUTCOME).unlink(missing_ok=True)
    environment = {k: v for k, v in os.environ.items() if k not in _OF_PROCESSES}
    environment["SLURM_JOB_NAME"] = "interactive"  # or Lightning leaves it to srun to start more
    command = [sys.executable, "-m", "simulmt.programs.one_run", str(folder), ckpt_path]
    # it ends with this process, as nobody else holds the pipe
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE)
    try:
        return _wait(process)
    except KeyboardInterrupt:
        report.say("interrupted: the same command goes on with what is not finished")
        raise
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Its exit status; a launcher's worker ends, and it too, if the sweep itself is killed."""
    name = os.environ.get(SWEEP_ID, "")
    typed = not name or name.startswith(f"{os.getpid()}-")
    while True:
        try:
            return process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            if not typed and os.getppid() != _PARENT:
                os.kill(os.getpid(), signal.SIGKILL)


def _explain(status: int, folder: Path) -> str:
    """Why it ended with this status."""
    left = read_outcome(folder)
    if left:
        return left.reason
    if status >= 0:
        return f"exit status {status}"
    name = signal.Signals(-status).name
    return f"killed by {name}{' (out of memory?)' if name == 'SIGKILL' else ''}"


def value(folder: Path) -> float:
    """The most of `valid/selection` in `metrics.csv`, which is what the best checkpoint has.

    That is BLEU on the development set, and below 0 outside `trainer.dal_range` by the distance
    from it (`simulmt.training.callbacks.selection`). The test set has no say in a search.
    """
    values = read_columns(folder, "valid/selection")
    return max((value for (value,) in values), default=FAILED)
