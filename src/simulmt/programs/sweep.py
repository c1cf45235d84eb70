"""A run alone, or within a sweep: skipped if finished, resumed if interrupted, else trained.

The same command again, perhaps with more values, thus trains the missing runs of a sweep. Each run
is the command `simulmt train` in a separate process, so that its failure (out of memory, say)
affects no other run.

Sweeps at the same time may share runs. A sweep reads the state of a run, and trains it, under the
lock of its directory, and postpones a run that another sweep is training.
"""

import math
import os
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

from hydra import compose
from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from simulmt.data.manifest import Manifest
from simulmt.errors import UserError
from simulmt.files.metrics import read_columns
from simulmt.files.run_directory import CONFIG, MANIFEST, remove_empty
from simulmt.programs.cli import COMMAND
from simulmt.programs.outcome import (
    CONFIG_DIR,
    FAILED,
    SWEEP,
    Outcome,
    find_outcomes,
    write_outcome,
)
from simulmt.programs.plain import plain
from simulmt.programs.run_spec import RunSpec
from simulmt.programs.train import train
from simulmt.system.console import say
from simulmt.system.disk import read_record
from simulmt.system.ending import BAD_INPUT, ENDS_WITH, end_with, failure
from simulmt.system.lock import BusyError
from simulmt.training.resume import LOCKED, RunState, alone_in, read_state
from simulmt.training.run_name import run_name


def run_or_sweep(config: DictConfig) -> float | None:
    """Train, test, and write everything into the run directory.

    Returns:
        In a sweep, the value that a search maximises.
    """
    chosen = HydraConfig.get()
    folder = Path(chosen.runtime.output_dir)
    if chosen.job.chdir:
        raise UserError("hydra.job.chdir=true would change what relative paths mean: leave it out")
    if chosen.mode == RunMode.MULTIRUN:
        words = [*chosen.overrides.hydra, *chosen.overrides.task]
        return sweep_run(config, folder, chosen.job.num, words, waits=not _may_postpone(chosen))
    hydra = OmegaConf.create({"hydra": chosen})
    parts = {"config": config, "hydra": hydra, "overrides": chosen.overrides.task}
    record = {f"{name}.yaml": OmegaConf.to_yaml(part) for name, part in parts.items()}
    train(config, str(folder), record, chosen.overrides.task)
    return None


def sweep_run(
    cfg: DictConfig, folder: Path, number: int, words: Sequence[str], *, waits: bool = True
) -> float:
    """Train a run of a sweep unless it is finished; a failure raises nothing.

    Args:
        cfg: the configuration of the run.
        folder: the run directory.
        number: the place of the run in the sweep.
        words: the command line of the run.
        waits: wait for another process that trains the run; without it the run is postponed.

    Returns:
        The value that a sweeper maximises (see `value`).
    """
    began = time.monotonic()
    if (begun_by := int(os.environ.get(ENDS_WITH, os.getpid()))) != os.getpid():  # by a launcher
        end_with(os.getppid())
        if "SLURM_JOB_ID" not in os.environ:  # on the same machine
            end_with(begun_by)
    try:
        run = RunSpec.of(plain(cfg), words)
        with alone_in(folder, waits=waits):
            outcome = _run(run, folder, words)
    except BusyError as error:
        outcome = Outcome("busy", str(error), tries=0, words=[*words])
    except (UserError, OmegaConfBaseException) as error:
        outcome = Outcome("failed", " ".join(str(error).split()), tries=0)
    seconds, name = round(time.monotonic() - began, 1), shown_name(words, folder)
    write_outcome(number, replace(outcome, seconds=seconds, folder=str(folder), name=name))
    if outcome.outcome != "busy":
        remove_empty([folder])  # of a rejected run
    say(": ".join(filter(None, [name, outcome.outcome, outcome.reason])))
    return FAILED if outcome.outcome in {"busy", "failed"} else value(folder)


def shown_name(words: Sequence[str], folder: Path) -> str:
    """Return a run's name in its sweep's output: a folder's name, without what all runs share.

    Args:
        words: the command line of the run.
        folder: the run directory, whose name is shown if the command has no other words.
    """
    typed = shlex.split(os.environ.get(COMMAND, ""))
    chosen = [word for word in words if word not in typed]
    return run_name(chosen) if chosen else folder.name


def finish_postponed() -> None:
    """Train, resume or skip the runs that other processes trained when it was their turn."""
    for number, outcome in find_outcomes(Path(os.environ[SWEEP])).items():
        if outcome.outcome == "busy":
            config = compose("train", [*outcome.words])
            sweep_run(config, Path(outcome.folder), number, outcome.words)


def value(folder: Path) -> float:
    """Return the value that the sweeper maximises: `valid/selection` of the best checkpoint.

    The value is BLEU on the development set, or negative outside `trainer.dal_range`
    (`simulmt.training.callbacks.selection`). The test set has no influence on it.
    """
    values = (value for (value,) in read_columns(folder, "valid/selection"))
    return max(filter(math.isfinite, values), default=FAILED)


def _may_postpone(chosen: HydraConf) -> bool:
    """Return True if the sweep may leave a run until its end and then train it in this process.

    A search needs the value of a run at once, and a cluster trains on other machines.
    """
    parts = (chosen.sweeper._target_, chosen.launcher._target_)
    sweeper, launcher = (part.rpartition(".")[2] for part in parts)
    return sweeper == "BasicSweeper" and launcher in {"BasicLauncher", "JoblibLauncher"}


def _run(run: RunSpec, folder: Path, words: Sequence[str]) -> Outcome:
    """Train a run until it is finished or has failed too often."""
    config, options = run.config.plain, run.config.sweep
    state = read_state(folder, config)
    if state.kind != "new" and (changed := _changed_text(run, folder)):
        state = RunState("new", f"the text changed: {', '.join(changed)}")
    if state.kind == "finished":
        return Outcome("skipped", "already finished", 0)
    reasons = [state.reason] if state.reason else []
    done, before = Outcome("resumed" if state.kind == "half" else "trained"), _begun_at(folder)
    for tries in range(1, options.retries + 2):
        status, reason = _start(folder, [*words, *["ckpt_path=last"] * (state.kind == "half")])
        if status == BAD_INPUT:  # trying again would not help
            return Outcome("failed", reason, tries - (_begun_at(folder) == before))
        if status:
            reasons.append(f"try {tries} failed: {reason}")
        if _begun_at(folder) != before:  # or the run there is an earlier one
            state = read_state(folder, config)
        if state.kind == "finished":  # even if the process failed after its run
            return replace(done, reason="; ".join(reasons), tries=tries)
        if status == 0:
            return Outcome("failed", "; ".join([*reasons, "ended without test scores"]), tries)
    return Outcome("failed", "; ".join(reasons), options.retries + 1)


def _changed_text(run: RunSpec, folder: Path) -> list[str]:
    """Return the splits whose text is known to have changed since the run in a directory began."""
    if not {"root", "path"} & run.data.reader.keys():
        return []  # the text is generated
    with suppress(UserError):  # text that is gone is no reason to train again
        then = read_record(folder / MANIFEST, Manifest).splits.items()
        now = run.data.read(cache=run.config.cache).splits
        return [n for n, x in then if now[n].sha256 != (x.source_sha256, x.target_sha256)]
    return []


def _begun_at(folder: Path) -> int:
    """Return the time at which the run in a directory has begun; 0 if there is none."""
    return (folder / CONFIG).stat().st_mtime_ns if (folder / CONFIG).is_file() else 0


def _start(folder: Path, words: Sequence[str]) -> tuple[int, str]:
    """Train in another process, which ends with this one.

    Returns:
        Its exit status, and the reason if that is not 0.
    """
    place = QuotedString(str(folder), Quote.single).with_quotes()
    line = [sys.executable, "-m", "simulmt", "train", *words]
    line += ["hydra.mode=RUN", f"hydra.run.dir={place}"]
    if own := os.environ.get(CONFIG_DIR):
        line += ["--config-dir", own]
    env = os.environ | {ENDS_WITH: str(os.getpid()), LOCKED: str(folder.absolute())}
    env["PYTHONSAFEPATH"] = "1"  # a statistics.py in the current folder must not hide Python's
    last = ""
    with Popen(
        line, env=env, stdin=DEVNULL, stderr=PIPE, encoding="utf-8", errors="replace"
    ) as child:
        try:
            for text in child.stderr or ():
                sys.stderr.write(text)
                last = text.strip() or last
        except BaseException:  # such as Ctrl-C
            child.kill()
            raise
    status = child.returncode
    own = last.removeprefix("error: ") if last.startswith("error: ") else ""
    return status, own or ": ".join(filter(None, [failure(status), last]))
