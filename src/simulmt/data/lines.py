"""Many lines of text in little memory."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload


class Text(Sequence[str]):
    """Lines, each of which is made when it is asked for. Equal to any sequence of the same ones."""

    @abstractmethod
    def line(self, place: int) -> str:
        """The one at a place from 0."""

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """One, or a list of some."""
        if isinstance(index, slice):
            return [self.line(place) for place in range(*index.indices(len(self)))]
        return self.line(range(len(self))[index])

    def __iter__(self) -> Iterator[str]:
        return map(self.line, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"


class Lines(Text):
    """A list of strings that only grows, as one block of UTF-8: 8 bytes a line besides its text."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self._text = bytearray()
        self._ends = array("q", [0])
        for line in lines:
            self.append(line)

    def append(self, line: str) -> None:
        """Add one at the end."""
        self._text += line.encode("utf-8")
        self._ends.append(len(self._text))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def line(self, place: int) -> str:
        """Decoded anew every time."""
        return self._text[self._ends[place] : self._ends[place + 1]].decode("utf-8")


class Joined(Text):
    """The lines of one text after those of another, neither of them copied."""

    def __init__(self, first: Sequence[str], second: Sequence[str]) -> None:
        self._first, self._second = first, second

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    def line(self, place: int) -> str:
        """Of the one or the other."""
        beyond = place - len(self._first)
        return self._first[place] if beyond < 0 else self._second[beyond]
