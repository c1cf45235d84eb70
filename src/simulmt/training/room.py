"""Room for a run: an earlier run is set aside, never replaced; a run that resumes goes on in it."""

import logging
from itertools import count
from pathlib import Path

from simulmt.files.run_directory import (
    AVERAGE,
    CONFIG,
    LEFT_BY_KILLS,
    MARK,
    RESULTS,
    step_checkpoints,
)
from simulmt.system.console import say
from simulmt.system.disk import writing
from simulmt.system.ending import is_first
from simulmt.training.resume import is_own


def make_room(folder: Path, resume: Path | None, step: int | None) -> None:
    """Make a folder for a run; an earlier run in its place gets the name NAME@1, NAME@2, ...

    A run that resumes its own training keeps its folder. It loses its test scores, because a run
    that has them is finished.

    Args:
        folder: the run directory.
        resume: the checkpoint that is resumed, if any.
        step: the update of that checkpoint.
    """
    if not is_first():
        return
    if resume is not None and is_own(resume, folder):
        _clear_after(folder, step or 0)
    elif (folder / CONFIG).is_file():
        _set_aside(folder)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARK).touch()


def _set_aside(folder: Path) -> None:
    places = (folder.with_name(f"{folder.name}@{number}") for number in count(1))
    place = next(place for place in places if not place.exists())
    for handler in logging.getLogger().handlers:
        handler.close()  # a log goes on in the new folder
    with writing(folder):
        folder.rename(place)
    say(f"the earlier run in {folder} is now {place.name}")


def _clear_after(folder: Path, step: int) -> None:
    """Remove the results of a run that resumes at an update, and the checkpoints of later ones."""
    for pattern in (*RESULTS, AVERAGE, *LEFT_BY_KILLS):
        for path in folder.glob(pattern):
            path.unlink()
    for path in step_checkpoints(folder):
        if int(path.stem.rpartition("-")[2]) > step:
            path.unlink()
