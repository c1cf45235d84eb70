"""A run within a sweep: skipped if finished, resumed if half-trained, else trained.

A single run sets the run in its directory aside: the user who repeats its command wants it trained
again. A user who repeats the command of a sweep, after an interruption or with more values, wants
the missing runs.

Each run trains in a process of its own (`simulmt.programs.child`), so that its failure (out of
memory, say) affects no other run, and the several processes of one run (trainer=ddp) are no part of
Hydra's sweep.

Sweeps at the same time may share runs. The state of a run is read, and the run is trained, under
the lock of its directory. A sweep postpones a run that another one trains.
"""

import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from omegaconf import DictConfig, OmegaConf

from simulmt.configuration import Configuration
from simulmt.console import console, say
from simulmt.ending import ENDS_WITH, end_with, killed_by
from simulmt.errors import UserError
from simulmt.lock import BusyError
from simulmt.metrics import read_columns
from simulmt.options import Config
from simulmt.programs.choices import Sweep, check_choices, check_machine
from simulmt.programs.outcome import (
    CHOSEN,
    FAILED,
    OUTCOME,
    SWEEP,
    Outcome,
    failure,
    find_outcomes,
    read_outcome,
    write_outcome,
)
from simulmt.programs.plain import plain
from simulmt.programs.provenance import COMMAND, command
from simulmt.run_directory import CONFIG, HYDRA, check_own, read_texts, write_texts
from simulmt.training.resume import State, alone_in, best_selection, read_state

_OF_PROCESSES = ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def sweep_run(
    cfg: DictConfig,
    folder: Path,
    number: int,
    hydra: Mapping[str, str] = MappingProxyType({}),
    *,
    waits: bool = True,
) -> float:
    """Train a run of a sweep unless it is finished; a failure raises nothing.

    Args:
        cfg: the configuration of the run.
        folder: the run directory.
        number: the place of the run in the sweep.
        hydra: the files of Hydra's record, by name.
        waits: whether to wait for another process that trains the run; else the run is postponed.

    Returns:
        The value that a sweeper maximises (see `value`).
    """
    began = time.monotonic()
    if os.environ.get(ENDS_WITH, str(os.getpid())) != str(os.getpid()):  # a launcher's worker
        end_with(os.getppid())
    record = Path(os.environ.get(SWEEP, folder / ".sweep"), str(number))
    outcome = _attempt(cfg, folder, record, hydra, waits)
    seconds = round(time.monotonic() - began, 1)
    try:
        write_outcome(record, replace(outcome, seconds=seconds, folder=str(folder)))
    except UserError as error:  # the disk is full: the next run may have room
        outcome = replace(outcome, outcome="failed", reason=outcome.reason or str(error))
    line = f"{folder.name}: {outcome.outcome}{': ' if outcome.reason else ''}{outcome.reason}"
    console.print(line, markup=False, soft_wrap=True)
    return FAILED if outcome.outcome in {"busy", "failed"} else value(folder)


def _attempt(
    cfg: DictConfig, folder: Path, record: Path, hydra: Mapping[str, str], waits: bool
) -> Outcome:
    """Check and train a run, and return its outcome, whatever happens."""
    try:
        config = plain(cfg)
        choices = check_choices(Configuration.of(config))
        check_machine(choices)
        check_own(folder)
        record.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(OmegaConf.create(config), record / CHOSEN)
        write_texts(record / HYDRA, hydra)
        with alone_in(folder, waits=waits):
            return _run(config, folder, record, choices.sweep)
    except BusyError as error:
        return Outcome("busy", str(error), tries=0)
    except Exception as error:  # the other runs of the sweep go on
        return replace(failure(error), tries=0)


def finish_postponed(sweep: Path) -> None:
    """Train, resume or skip the runs that other processes trained when it was their turn."""
    for number, outcome in enumerate(find_outcomes(sweep)):
        if outcome.outcome == "busy":
            config = OmegaConf.load(sweep / str(number) / CHOSEN)
            assert isinstance(config, DictConfig)
            hydra = read_texts(sweep / str(number) / HYDRA)
            sweep_run(config, Path(outcome.folder), number, hydra)


def _run(config: Config, folder: Path, record: Path, options: Sweep) -> Outcome:
    """Train a run until it is finished or has failed too often."""
    state = State("new", "sweep.restart=true") if options.restart else read_state(folder, config)
    if state.kind == "finished":
        return Outcome("skipped", "finished before", 0)
    reasons = [state.reason] if state.reason else []
    done, before = Outcome("resumed" if state.kind == "half" else "trained"), _begun_at(folder)
    for tries in range(1, options.retries + 2):
        status = _start(folder, record, _ckpt_path(config, state))
        if status:
            reason = _explain(status, record)
            reasons.append(f"try {tries} failed: {reason}")
            if _begun_at(folder) != before:  # else the earlier run is still the one there
                state = read_state(folder, config)
        if status == 0 or state.kind == "finished":  # or only the exit failed
            return replace(done, reason="; ".join(reasons), tries=tries)
        if status == 2:  # a bad option stays bad
            return Outcome("failed", reason, tries)
    return Outcome("failed", "; ".join(reasons), options.retries + 1)


def _begun_at(folder: Path) -> int:
    """Return the time at which the run in a directory has begun; 0 if there is none."""
    config = folder / CONFIG
    return config.stat().st_mtime_ns if config.is_file() else 0


def _ckpt_path(config: Config, state: State) -> str:
    """Return the checkpoint to resume from: the run's own last one, or the user's."""
    if state.kind != "new":
        return "last"
    ckpt_path = config["ckpt_path"] or ""
    return "" if ckpt_path == "last" else str(ckpt_path)


def _start(folder: Path, record: Path, ckpt_path: str) -> int:
    """Train in another process, which ends with this one; return its exit status."""
    environment = {k: v for k, v in os.environ.items() if k not in _OF_PROCESSES}
    environment[ENDS_WITH] = str(os.getpid())
    environment.setdefault(COMMAND, command())
    line = [sys.executable, "-m", "simulmt.programs.child", str(folder), str(record), ckpt_path]
    try:
        done = subprocess.run(line, env=environment, stdin=subprocess.DEVNULL, check=False)
    except KeyboardInterrupt:
        say("interrupted: the same command trains the runs that are not finished")
        raise
    return done.returncode


def _explain(status: int, record: Path) -> str:
    """Return why the process ended with this status."""
    if outcome := read_outcome(record):
        (record / OUTCOME).unlink()
        return outcome.reason
    try:
        return killed_by(-status if status < 0 else status - 128)
    except ValueError:
        return f"exit status {status}, without a word"


def value(folder: Path) -> float:
    """Return the value that the sweeper maximises: `valid/selection` of the best checkpoint.

    The value is BLEU on the development set, or negative outside `trainer.dal_range`
    (`simulmt.training.callbacks.selection`). A sweeper never sees the test set.
    """
    values = [value for (value,) in read_columns(folder, "valid/selection")]
    finite = [*filter(math.isfinite, values)]
    return max(finite) if finite else best_selection(folder, FAILED)  # the metrics may be lost
