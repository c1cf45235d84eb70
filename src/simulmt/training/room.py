"""Room for a run: what a new run, a resumed run and a run that replaces another one clear.

A run that replaces another one is staged in a folder within the run directory until its first
validation. Until then the earlier run is what reports and `ckpt_path=last` see, and what a failure
or a kill leaves.
"""

import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from simulmt.console import say
from simulmt.processes import is_first_process
from simulmt.run_directory import (
    AVERAGE,
    FILES,
    FOLDERS,
    LANDING,
    LAST,
    LEFT_BY_KILLS,
    MARK,
    NEXT,
    OF_LOGGERS,
    RESULTS,
    SCORES,
    TENSORBOARD,
    step_checkpoints,
)
from simulmt.training.resume import is_own


def make_room(folder: Path, resume: Path | None, step: int | None) -> Path:
    """Clear the run directory, unless it holds a run that is to be kept for the time being.

    A run that resumes its own training keeps what it needs. Such a run loses its test scores,
    because a run that has them is finished.

    Args:
        folder: the run directory; the first process makes it where absent.
        resume: the checkpoint that is resumed, if any.
        step: the update of that checkpoint.

    Returns:
        The folder that the run writes into until its first validation.
    """
    own = resume is not None and is_own(resume, folder)
    kept = not own and ((folder / LAST).is_file() or (folder / SCORES).is_file())
    stage = folder / NEXT if kept else folder
    if is_first_process():
        stage.mkdir(parents=True, exist_ok=True)
        for place in {folder, stage}:
            (place / MARK).touch()
        if own:
            clear_after(folder, step or 0)
        elif kept:
            say(
                f"the run in {folder} is kept until the first validation, which replaces it; "
                "ckpt_path=last would have resumed it"
            )
        else:
            clear(folder)
    return stage


@contextmanager
def settled(folder: Path) -> Iterator[None]:
    """Put a run directory in order before and after a training, whatever ends it."""
    if not is_first_process():
        yield
        return
    settle(folder)
    try:
        yield
    finally:
        settle(folder)


def settle(folder: Path) -> None:
    """Let a staged run that has been validated replace the earlier one; remove any other.

    A kill at any moment leaves a directory that this function puts in order.
    """
    staged, landing = folder / NEXT, folder / LANDING
    if (staged / LAST).is_file():
        clear(folder, successor=staged)
        staged.rename(landing)
    elif (staged / MARK).is_file():  # it failed: its curve must not mix with the earlier one
        began = (staged / MARK).stat().st_mtime
        for path in (folder / TENSORBOARD).rglob("*"):
            if path.lstat().st_mtime >= began:
                _remove_one(path)
    for path in sorted(landing.rglob("*")):  # folders before their files
        place = folder / path.relative_to(landing)
        if path.is_dir():
            place.mkdir(exist_ok=True)
        else:
            os.replace(path, place)
    for leftover in (landing, staged):
        shutil.rmtree(leftover, ignore_errors=True)


def clear(folder: Path, successor: Path | None = None) -> None:
    """Remove the files of an earlier run.

    Args:
        folder: the run directory.
        successor: the folder of a run whose files are about to move into the run directory. What
            they replace stays, and so does what the loggers of that run have written.
    """
    _remove(folder, RESULTS)  # first: a folder that is half cleared must not look finished
    began = (successor / MARK).stat().st_mtime if successor else math.inf
    for name in FOLDERS:
        for path in sorted((folder / name).rglob("*"), reverse=True):  # files before their folder
            replaced = successor and (successor / path.relative_to(folder)).exists()
            logged = name in OF_LOGGERS and path.lstat().st_mtime >= began
            if not replaced and not logged:
                _remove_one(path)
        _remove_one(folder / name)
    unique = (name for name in FILES if not (successor and (successor / name).exists()))
    _remove(folder, (*unique, *LEFT_BY_KILLS))


def clear_after(folder: Path, step: int) -> None:
    """Remove the results of a run that resumes at an update, and the checkpoints of later ones."""
    _remove(folder, (*RESULTS, AVERAGE, *LEFT_BY_KILLS))
    for path in step_checkpoints(folder):
        if int(path.stem.rpartition("-")[2]) > step:
            path.unlink()


def _remove(folder: Path, patterns: tuple[str, ...]) -> None:
    """Remove the files that the patterns match."""
    for pattern in patterns:
        for path in folder.glob(pattern):
            _remove_one(path)


def _remove_one(path: Path) -> None:
    """Remove a file or an empty folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        with suppress(OSError):  # not empty
            path.rmdir()
    else:
        path.unlink(missing_ok=True)
