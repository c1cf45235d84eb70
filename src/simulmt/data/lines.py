"""Sequences of text lines that take little memory."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from typing import overload


class LineSequence(Sequence[str]):
    """Lines that are made anew at each access; equal to any sequence of equal lines."""

    @abstractmethod
    def line(self, index: int) -> str:
        """The line at `index`, 0 to length - 1."""

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """One line, or the list of lines of a slice."""
        positions = range(len(self))[index]
        return self.line(positions) if isinstance(positions, int) else [*map(self.line, positions)]

    def __iter__(self) -> Iterator[str]:
        return map(self.line, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


class PackedLines(LineSequence):
    """A growing list of lines in one block of UTF-8; each line costs its text and 8 bytes."""

    def __init__(self) -> None:
        self._text = bytearray()
        self._ends = array("q", [0])

    def append(self, line: str) -> None:
        """Add a line at the end."""
        self._text += line.encode("utf-8")
        self._ends.append(len(self._text))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def line(self, index: int) -> str:
        """The line at `index`, decoded anew at each call."""
        return self._text[self._ends[index] : self._ends[index + 1]].decode("utf-8")


class ConcatenatedLines(LineSequence):
    """The lines of `first`, then those of `second`; neither is copied."""

    def __init__(self, first: Sequence[str], second: Sequence[str]) -> None:
        self._first, self._second = first, second

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    def line(self, index: int) -> str:
        """The line at `index` of the concatenation."""
        rest = index - len(self._first)
        return self._first[index] if rest < 0 else self._second[rest]
