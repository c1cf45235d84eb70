"""Resuming: the state of a run directory, the checkpoint to resume from, and whether it fits."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from filelock import BaseFileLock, FileLock, Timeout

from simulmt.console import say
from simulmt.data.manifest import check_manifest
from simulmt.errors import UserError
from simulmt.lock import BusyError
from simulmt.options import SAME_RUN, Config, flat_options
from simulmt.parts import needed_by
from simulmt.processes import is_first_process
from simulmt.run_directory import (
    CONFIG,
    LAST,
    LOCK,
    LOCKED_BY,
    MARK,
    absent,
    is_finished,
    read_json,
    read_provenance,
    remove_empty,
    replacing,
)
from simulmt.saved.checkpoint import read_checkpoint

_THE_SAME = ("model", "mechanism", "teacher", "optim")
"""The groups of options that a resumed run must not change."""
_STATE: Mapping[str, type] = {
    **{"global_step": int, "epoch": int, "loops": dict, "callbacks": dict},
    **{"optimizer_states": list, "lr_schedulers": list},
}
"""The types of the state of a training in a checkpoint."""
_NEXT_WORD = 600
"""Seconds between two lines about a run that is waited for."""


@dataclass(frozen=True)
class State:
    """The state of a run, and the reason."""

    kind: Literal["new", "half", "finished"]
    reason: str = ""


def read_state(folder: Path, config: Config) -> State:
    """Return the state of the run in a directory; a run with other settings counts as new.

    Args:
        folder: the run directory, which may be absent.
        config: the configuration that is to be trained.
    """
    if not (folder / CONFIG).is_file():
        return State("new")
    try:
        if changed := differences(read_json(folder / CONFIG), config) + _edited(folder, config):
            return State("new", f"settings changed: {', '.join(changed)}")
        if is_finished(folder):
            return State("finished")
        if not (folder / LAST).is_file():
            return State("new")
        return State("half", f"from update {read_checkpoint(folder / LAST).get('global_step')}")
    except UserError as error:
        return State("new", str(error))


def is_done(choice: str | None, folder: Path, config: Config) -> bool:
    """Return whether `ckpt_path=last` asks for a run that is finished; say what remains to do."""
    if choice != "last" or read_state(folder, config).kind != "finished":
        return False
    most = "trainer.max_updates"
    raised = most if config["trainer"]["patience"] is None else f"{most} or trainer.patience"
    say(
        f"the run in {folder} is finished: raise {raised} to train on, or leave out ckpt_path to "
        "train it anew"
    )
    return True


def best_selection(folder: Path, default: float) -> float:
    """Return the greatest `valid/selection` that a run's last checkpoint knows of, or a default."""
    try:
        states = read_checkpoint(folder / LAST)["callbacks"].values()
        scores = [s["best_model_score"] for s in states if s.get("monitor") == "valid/selection"]
        return float(scores[0])
    except (UserError, AttributeError, IndexError, KeyError, TypeError):
        return default


def differences(before: Config, after: Config) -> list[str]:
    """Return the changed settings, of those that affect training."""
    old, new = flat_options(before), flat_options(after)
    return [
        f"{key} was {old.get(key)}, is {new.get(key)}"
        for key in {**old, **new}
        if old.get(key) != new.get(key) and not key.startswith(SAME_RUN)
    ]


def _edited(folder: Path, config: Config) -> list[str]:
    """Return the plugins whose code has changed since the run in a directory began."""
    provenance = read_provenance(folder)
    then = provenance.versions if provenance else {}
    return [
        f"{module} was {then.get(module)}, is {now}"
        for module, now in needed_by(config).items()
        if then.get(module) != now
    ]


def find_resume(choice: str | None, folder: Path) -> Path | None:
    """Return the checkpoint to resume from, if any; `last` names the newest of this run."""
    if not choice:
        return None
    path = folder / LAST if choice == "last" else Path(choice)
    if choice == "last" and not path.exists():
        say(f"nothing to resume in {folder}: starting a new run")
        return None
    if not path.is_file():
        raise UserError(f"ckpt_path={choice}: there is no such file; give a .ckpt file or `last`")
    return path


def check_resume(path: Path, config: Config, described: Mapping[str, object], folder: Path) -> int:
    """Refuse to resume with other data, model, mechanism, teacher or optimiser.

    A checkpoint without updates left is refused, too, unless it is the run's own: then the run is
    only tested again.

    Args:
        path: the checkpoint.
        config: the configuration of the run.
        described: the manifest of the run's data.
        folder: the run directory.

    Returns:
        The update at which the run resumes.

    Raises:
        UserError: the checkpoint cannot be resumed from.
    """
    checkpoint = read_checkpoint(path)
    before = checkpoint["simulmt"]
    check_manifest(before["manifest"], described, ["train", "valid"])
    old, new = ({group: c.get(group) for group in _THE_SAME} for c in (before["config"], config))
    if changed := differences(old, new):
        raise UserError(
            f"cannot resume with other settings ({', '.join(changed)}); give the options of the "
            "checkpoint, or start from its weights with init_from"
        )
    lacks = [name for name, kind in _STATE.items() if not isinstance(checkpoint.get(name), kind)]
    if lacks or len(checkpoint["optimizer_states"]) != 1 or len(checkpoint["lr_schedulers"]) != 1:
        raise UserError(
            f"ckpt_path={path} holds weights alone, no update to resume at (it lacks "
            f"{', '.join(lacks) or 'an optimiser'}); give last.ckpt, or start from its weights "
            "with init_from"
        )
    step, most = int(checkpoint["global_step"]), config["trainer"]["max_updates"]
    if step >= most and not is_own(path, folder):
        raise UserError(
            f"ckpt_path={path} has been trained for {step:,} updates, trainer.max_updates is "
            f"{most:,}: raise it, or score the checkpoint as it is with `simulmt evaluate`"
        )
    return step


def is_own(path: Path, folder: Path) -> bool:
    """Return whether a checkpoint lies in a run directory."""
    return folder.resolve() in path.resolve().parents


@contextmanager
def alone_in(folder: Path, *, waits: bool = False) -> Iterator[None]:
    """Lock a run directory; the system releases the lock however the process ends.

    Args:
        folder: the run directory.
        waits: whether to wait for a process that has locked it.

    Raises:
        BusyError: another process trains there; the message names it.
    """
    if not is_first_process():  # the first process locks the directory for all
        yield
        return
    made = absent(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    _acquire(lock, folder, waits=waits)
    try:
        yield
    finally:
        if not (folder / MARK).is_file():  # no run has begun: as if nothing had been here
            for name in (LOCK, LOCKED_BY):
                (folder / name).unlink(missing_ok=True)
            remove_empty(made)
        lock.release()


def _acquire(lock: BaseFileLock, folder: Path, *, waits: bool) -> None:
    """Acquire the lock of a run directory, and write the process and its host beside it."""
    holder = folder / LOCKED_BY
    timeout = 0
    while not lock.is_locked:
        try:
            lock.acquire(timeout, poll_interval=1)
        except Timeout:
            who = holder.read_text() if holder.is_file() else "another process"
            if not waits:
                raise BusyError(f"{who} is training in {folder}; wait for it") from None
            say(f"waiting: {who} is training in {folder}")
            timeout = _NEXT_WORD
        except OSError:  # a file system without locks
            return
    with replacing(holder) as unfinished:
        unfinished.write_text(f"process {os.getpid()} on {socket.gethostname()}")
