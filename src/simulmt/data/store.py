"""Cached arrays of a corpus: made once, whole or not at all, and checked when they are opened.

An entry is a folder of files, with a record of their sizes, their digests and the facts that its
maker has returned. Processes that want the same entry wait for the one that makes it.
"""

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from simulmt.console import say
from simulmt.data.ragged import Ragged
from simulmt.disk import check_space, writing
from simulmt.errors import UserError
from simulmt.lock import alone
from simulmt.run_directory import read_record, write_json

_RECORD = "about.json"
_UNFINISHED = ".tmp"
_REMEDY = "set `cache` to another folder"
_SMALL = 1 << 20
SIDES = ("source", "target")
"""The names of the files of both languages in an entry."""


@dataclass(frozen=True)
class Stored:
    """A file of an entry: its size in bytes and its SHA-256 in hex."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Record:
    """The files of an entry by name, and the facts that its maker has returned."""

    files: dict[str, Stored]
    facts: dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """An entry of the cache, which `make` writes into a folder where it is absent or damaged.

    Args:
        folder: the folder of the entry.
        make: writes the files into a folder, and returns the facts: plain values by name.
    """

    folder: Path
    make: Callable[[Path], Mapping[str, Any]]

    @cached_property
    def record(self) -> Record:
        """The record; the entry is made if files are absent or of another size.

        Raises:
            UserError: the entry cannot be written.
        """
        return self._intact(_has_sizes)

    def rows(self, name: str, dtype: DTypeLike) -> Ragged:
        """The rows that `write_sides` wrote under a name; damaged files are made anew."""
        files = _files(self.folder, name)
        self._intact(partial(_has_digests, names=[file.name for file in files]))
        return Ragged.map(files, dtype)

    def _intact(self, check: Callable[[Path, Record], bool]) -> Record:
        record = _read(self.folder, check)
        if record is None:
            with writing(self.folder, f"make room there, or {_REMEDY}"):
                self.folder.parent.mkdir(parents=True, exist_ok=True)
                with alone(self.folder) as locked:
                    record = _read(self.folder, check) or self._make(locked)
        return record

    def _make(self, locked: bool) -> Record:
        """Write the entry beside its place, then move it there."""
        if locked:  # what lies there was left by a process that was killed
            for left in self.folder.parent.glob(f"{self.folder.name}.*{_UNFINISHED}"):
                shutil.rmtree(left, ignore_errors=True)
        unfinished = self.folder.with_name(f"{self.folder.name}.{uuid.uuid4().hex}{_UNFINISHED}")
        try:
            unfinished.mkdir()
            facts = dict(self.make(unfinished))
            files = {path.name: _stored(path) for path in sorted(unfinished.iterdir())}
            record = Record(files, facts)
            write_json(unfinished / _RECORD, record)
            shutil.rmtree(self.folder, ignore_errors=True)  # a damaged one
            _move(unfinished, self.folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        return record


def write_sides(folder: Path, parts: Iterable[tuple[Ragged, Ragged]], what: str, size: int) -> int:
    """Write the rows of both languages into an unfinished entry, part by part; return the pairs.

    Args:
        folder: the folder of the unfinished entry.
        parts: rows of sources and as many of targets.
        what: the rows, in words.
        size: their size in bytes, more or less.

    Raises:
        UserError: the disk has less free.
    """
    if size > _SMALL:
        say(f"writing {what} into {folder.parent}: about {size / 2**20:,.0f} MiB")
    check_space(folder, size, what, f"or {_REMEDY}")
    pairs = 0
    with _Rows(folder, SIDES[0]) as sources, _Rows(folder, SIDES[1]) as targets:
        for source, target in parts:
            sources.append(source)
            targets.append(target)
            pairs += len(source)
    return pairs


class _Rows:
    """Writes rows into two files of an unfinished entry, block by block.

    Args:
        folder: the folder of the unfinished entry.
        name: the beginning of the files' names.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._values, self._ends = (path.open("wb") for path in _files(folder, name))
        self._end = 0
        self._ends.write(np.zeros(1, np.int64).tobytes())

    def append(self, rows: Ragged) -> None:
        """Write more rows at the end."""
        self._values.write(rows.values.data)
        self._ends.write((rows.ends[1:] + self._end).data)
        self._end += len(rows.values)

    def __enter__(self) -> "_Rows":
        return self

    def __exit__(self, *_: object) -> None:
        self._values.close()
        self._ends.close()


def digest(content: object) -> str:
    """Return the SHA-256 in hex of plain values, a key for an entry."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    state, buffer = hashlib.sha256(), bytearray(1 << 20)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            state.update(memoryview(buffer)[:count])
    return state.hexdigest()


def _files(folder: Path, name: str) -> tuple[Path, Path]:
    """Return the files of the values and of the bounds of some rows."""
    return folder / name, folder / f"{name}.ends"


def _stored(path: Path) -> Stored:
    """Return the size and the digest of a file, once it is safe on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    return Stored(path.stat().st_size, digest_of_file(path))


def _read(folder: Path, check: Callable[[Path, Record], bool]) -> Record | None:
    """Return the record of an entry; None if it is absent or the check fails."""
    try:
        record = read_record(folder / _RECORD, Record)
        return record if check(folder, record) else None
    except (UserError, OSError, KeyError):
        return None


def _has_sizes(folder: Path, record: Record) -> bool:
    """Return whether the files of an entry have the sizes in its record."""
    return all((folder / n).stat().st_size == file.size for n, file in record.files.items())


def _has_digests(folder: Path, record: Record, names: Iterable[str] | None = None) -> bool:
    """Return whether files of an entry, by default all, have the digests in its record."""
    names = record.files if names is None else names
    return all(digest_of_file(folder / name) == record.files[name].sha256 for name in names)


def _move(unfinished: Path, folder: Path) -> None:
    """Move an entry to its place, unless a process that could not lock it has made it, too."""
    try:
        unfinished.rename(folder)
    except OSError:
        if _read(folder, _has_digests) is None:
            raise
