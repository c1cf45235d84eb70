"""What a command leaves: the folders that Hydra has made go again unless a run begins there."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from simulmt.run_directory import LOG, absent, remove_empty

_OF_HYDRA = {LOG, "multirun.yaml"}
_expected: list[Path] = []


def expect(folder: Path) -> None:
    """Remember which folders Hydra is about to make for this command."""
    _expected[:] = absent(folder)


def tidy() -> None:
    """Remove the folders that were made for this command, if nothing has come of it."""
    made = [*_expected]
    _expected.clear()
    with suppress(OSError):  # another process of the same command may be faster
        left = [*made[0].iterdir()] if made else []
        if {path.name for path in left} <= _OF_HYDRA:
            for path in left:
                path.unlink(missing_ok=True)
    remove_empty(made)


def remove_unused(folders: Iterable[Path], sweep: Path) -> None:
    """Remove the folders of a sweep in which no run has begun, and those above that are empty."""
    for folder in folders:
        inside = [place for place in (folder, *folder.parents) if sweep in place.parents]
        remove_empty(inside)
