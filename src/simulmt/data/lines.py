"""A sequence of text lines that takes little memory."""

from array import array
from collections.abc import Iterator, Sequence
from typing import overload


class PackedLines(Sequence[str]):
    """A growing list of lines in one block of UTF-8; each line costs its text and 8 bytes.

    A line is decoded anew at each access. The list is equal to any sequence of equal lines.
    """

    def __init__(self) -> None:
        self._text = bytearray()
        self._ends = array("q", [0])

    def append(self, line: str) -> None:
        """Add a line at the end."""
        self._text += line.encode("utf-8")
        self._ends.append(len(self._text))

    def __len__(self) -> int:
        return len(self._ends) - 1

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
        return self._text[self._ends[index] : self._ends[index + 1]].decode("utf-8")
