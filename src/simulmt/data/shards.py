"""The shards of a split: what the reader asks of a shard, and shards of two text files."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from simulmt.data.files import FilePair
from simulmt.data.pairs import Block, raw_blocks
from simulmt.data.store import digest_of_file
from simulmt.data.text import ENDINGS, unreadable

_GROWTH = 4  # the usual size of text over that of its compressed file


class Shard(Protocol):
    """A part of a split; as a string it is its name in messages."""

    @property
    def stamp(self) -> object:
        """Plain values that change when the shard does, and can be had without reading it."""

    @property
    def digests(self) -> list[str]:
        """The digests of the shard's files, and what is taken of the files."""

    @property
    def size(self) -> int:
        """The bytes that the text takes, more or less."""

    def blocks(self) -> Iterator[Block]:
        """The raw pairs, in at least one block.

        Raises:
            UserError: the pairs cannot be read.
        """


@dataclass(frozen=True)
class TextShard:
    """Two text files."""

    files: FilePair

    def __str__(self) -> str:
        return f"{self.files.source} and {self.files.target}"

    @property
    def stamp(self) -> object:
        """The places and the states of both files."""
        return stamp(self.files)

    @property
    def digests(self) -> list[str]:
        """The SHA-256 of both files."""
        return [digest_of_file(path) for path in self.files]

    @property
    def size(self) -> int:
        """The bytes that the text takes, more or less."""
        return sum(
            state(p).st_size * (_GROWTH if p.suffix in ENDINGS[1:] else 1) for p in self.files
        )

    def blocks(self) -> Iterator[Block]:
        """The raw lines of both files, in at least one block.

        Raises:
            UserError: a file cannot be read, is damaged or of another length than its partner.
        """
        return raw_blocks(self.files)


def stamp(paths: Iterable[Path]) -> list[object]:
    """Return what changes when a file does: for each file its place, sizes and times.

    Raises:
        UserError: a file cannot be read.
    """
    states = [(str(path), state(path)) for path in (path.absolute() for path in paths)]
    return [[path, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino] for path, s in states]


def state(path: Path) -> os.stat_result:
    """Return the state of a file.

    Raises:
        UserError: the file cannot be read.
    """
    try:
        return path.stat()
    except OSError as error:
        raise unreadable(path, error) from error
