"""Removes the folders that Hydra made for a command, unless a run has begun there."""

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
    """Remove the folders that Hydra made for this command, unless a run wrote into them."""
    made = [*_expected]
    _expected.clear()
    with suppress(OSError):  # another process of the same command may be faster
        left = [*made[0].iterdir()] if made else []
        if {path.name for path in left} <= _OF_HYDRA:
            for path in left:
                path.unlink(missing_ok=True)
    remove_empty(made)


def remove_unused(folders: Iterable[Path], sweep: Path) -> None:
    """Remove the run folders of a sweep that are empty, and empty folders above them."""
    for folder in folders:
        inside = [place for place in (folder, *folder.parents) if sweep in place.parents]
        remove_empty(inside)
