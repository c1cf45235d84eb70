"""A sequence of text lines in one block of UTF-8, in memory or in a mapped file."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import overload

import numpy as np

from simulmt.data.ragged import Ragged, bounds
from simulmt.errors import UserError

LF = b"\n"


class Lines(Sequence[str]):
    """N lines; each costs its text and 8 bytes, and is decoded at each access.

    The lines are equal to any sequence of equal lines.

    Args:
        count: N.
        read: returns the lines in UTF-8, each ended by LF; called at the first access to a line.
        sha256: the SHA-256 of these bytes in hex; None if it is not known.
    """

    def __init__(self, count: int, read: Callable[[], Ragged], sha256: str | None = None) -> None:
        self._count, self._read, self._sha256 = count, read, sha256

    @classmethod
    def of(cls, lines: Iterable[str]) -> "Lines":
        """Return a copy of some lines.

        Raises:
            UserError: a line has a line break.
        """
        rows = encoded(lines)
        if np.count_nonzero(rows.values == ord(LF)) != len(rows):
            broken = next(n for n in range(len(rows)) if LF in rows[n][:-1].tobytes())
            raise UserError(
                f"line {broken + 1:,} of a corpus has a line break: pass the lines through "
                "simulmt.data.text.normalise"
            )
        return cls.around(rows)

    @classmethod
    def around(cls, rows: Ragged) -> "Lines":
        """Return lines in UTF-8, each ended by LF, without a copy."""
        return cls(len(rows), lambda: rows)

    @cached_property
    def rows(self) -> Ragged:
        """The lines in UTF-8, each ended by LF."""
        return self._read()

    @cached_property
    def sha256(self) -> str:
        """SHA-256 in hex of the lines in UTF-8, each ended by LF."""
        return self._sha256 or hashlib.sha256(self.rows.values.data).hexdigest()

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """One line, or the list of lines of a slice."""
        places = range(len(self))[index]
        return self._line(places) if isinstance(places, int) else [*map(self._line, places)]

    def __iter__(self) -> Iterator[str]:
        return map(self._line, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def _line(self, index: int) -> str:
        return self.rows[index][:-1].tobytes().decode("utf-8")


def lines_of(rows: Ragged) -> list[str]:
    """Return lines in UTF-8, each ended by LF, as strings."""
    return rows.values.tobytes().decode("utf-8").split("\n")[:-1]


def encoded(lines: Iterable[str]) -> Ragged:
    """Return lines in UTF-8, each ended by LF."""
    rows = [line.encode("utf-8") + LF for line in lines]
    return Ragged(np.frombuffer(b"".join(rows), np.uint8), bounds([*map(len, rows)]))


def as_lines(lines: Sequence[str]) -> Lines:
    """Return any sequence of lines as `Lines`."""
    return lines if isinstance(lines, Lines) else Lines.of(lines)
