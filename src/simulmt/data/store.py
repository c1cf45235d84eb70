"""Cached arrays of a corpus: made once, whole or not at all, and checked when they are opened.

An entry is a folder of files. The file written last is a record of their digests and of the facts
that their maker returned; without it there is no entry. Processes that need the same entry wait for
the one that makes it.
"""

import hashlib
import json
import shutil
import socket
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from numpy.typing import DTypeLike

from simulmt.data.ragged import Ragged
from simulmt.errors import UserError
from simulmt.options import Config
from simulmt.system.disk import UNFINISHED, read_record, write_json, writing
from simulmt.system.lock import alone

_RECORD, _ENDS = "about.json", ".ends"
_REMEDY = "set `cache` to another folder"
SIDES = ("source", "target")
"""The names of the files of both languages in an entry."""


@dataclass(frozen=True)
class EntryRecord:
    """The SHA-256 in hex of an entry's files, and the facts that its maker has returned.

    `seal` is the digest of both and of the entry's key.
    """

    sha256: dict[str, str]
    facts: Config
    seal: str

    @classmethod
    def sealed(cls, key: str, sha256: dict[str, str], facts: Config) -> "EntryRecord":
        """Return the record of the entry with a key."""
        return cls(sha256, facts, digest([key, sha256, facts]))


@dataclass(frozen=True)
class Entry:
    """An entry of the cache, which `make` writes if it is absent or corrupt.

    Args:
        folder: the folder of the entry.
        make: writes the files into a folder, and returns the facts: plain values by name.
    """

    folder: Path
    make: Callable[[Path], Config]

    @cached_property
    def record(self) -> EntryRecord:
        """The record; the entry is made if there is none.

        Raises:
            UserError: the entry cannot be written.
        """
        return self._intact()

    def rows(self, name: str, dtype: DTypeLike) -> Ragged:
        """The rows that `write_sides` wrote under a name; an entry of corrupt files is rebuilt."""
        return Ragged.map(self.files(name, f"{name}{_ENDS}"), dtype)

    def files(self, *names: str) -> list[Path]:
        """The paths of some files; an entry of corrupt files is rebuilt."""
        used = [self.folder / name for name in names]
        self._intact(used)
        return used

    def _intact(self, used: Sequence[Path] = ()) -> EntryRecord:
        """Return the record of the entry, which is rebuilt if one of the used files has changed."""
        if (record := self._read(used)) is None:
            with writing(self.folder, _REMEDY):
                self.folder.parent.mkdir(parents=True, exist_ok=True)
                with alone(self.folder) as locked:
                    record = self._read(used) or self._make(locked)
        return record

    def _read(self, used: Sequence[Path]) -> EntryRecord | None:
        try:
            record = read_record(self.folder / _RECORD, EntryRecord)
            intact = record == EntryRecord.sealed(self.folder.name, record.sha256, record.facts)
            intact &= all(digest_of_file(file) == record.sha256.get(file.name) for file in used)
        except (UserError, OSError):
            return None
        return record if intact else None

    def _make(self, locked: bool) -> EntryRecord:
        """Make the entry beside its place; without a lock, several processes may do so at once."""
        place, name = self.folder, f"{self.folder.name}.{socket.gethostname()}"
        killed = place.parent.glob(f"{name}.*{UNFINISHED}") if locked else ()  # on this machine
        for corrupt in (place, *killed):
            shutil.rmtree(corrupt, ignore_errors=True)
        made = place.with_name(f"{name}.{uuid.uuid4().hex}{UNFINISHED}")
        made.mkdir()
        try:
            facts = dict(self.make(made))
            sha256 = {file.name: digest_of_file(file) for file in sorted(made.iterdir())}
            record = EntryRecord.sealed(place.name, sha256, facts)
            write_json(made / _RECORD, record)
            try:
                made.rename(place)
            except OSError:
                if self._read(()) is None:  # else another process was faster
                    raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return record


def write_sides(folder: Path, parts: Iterable[tuple[Ragged, Ragged]]) -> int:
    """Write the rows of both languages into the files of an entry; return the number of pairs.

    Args:
        folder: the folder of the entry.
        parts: rows of sources and as many of targets.
    """
    pairs, written = 0, [0, 0]
    with ExitStack() as stack:
        names = [(side, f"{side}{_ENDS}") for side in SIDES]
        files = [[stack.enter_context((folder / n).open("wb")) for n in pair] for pair in names]
        for _, ends in files:
            ends.write(bytes(8))
        for part in parts:
            for side, ((values, ends), rows) in enumerate(zip(files, part, strict=True)):
                values.write(rows.values.data)
                ends.write((rows.ends[1:] + written[side]).data)
                written[side] += len(rows.values)
            pairs += len(part[0])
    return pairs


def digest(content: object) -> str:
    """Return the SHA-256 in hex of plain values, a key for an entry."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
