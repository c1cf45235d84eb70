"""Rows of different lengths, end to end in one array: in memory, or in mapped files."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray


@dataclass(frozen=True)
class Ragged:
    """N rows of integers.

    Attributes:
        values: The rows, end to end.
        ends: The N + 1 bounds: row n is `values[ends[n] : ends[n + 1]]`.
    """

    values: NDArray[Any]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]], dtype: DTypeLike) -> "Ragged":
        """Return some sequences as rows."""
        listed = [np.asarray(row, dtype) for row in rows]
        return cls(np.concatenate([np.empty(0, dtype), *listed]), bounds([*map(len, listed)]))

    @classmethod
    def joined(cls, parts: Sequence["Ragged"]) -> "Ragged":
        """Return the rows of one or more parts."""
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.values for part in parts]), bounds(lengths))

    @classmethod
    def map(cls, files: Sequence[Path], dtype: DTypeLike) -> "Ragged":
        """Return the rows in the files of values and bounds; the system reads what is used."""
        values, ends = files
        return cls(_mapped(values, dtype), _mapped(ends, np.int64))

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, index: int) -> NDArray[Any]:
        index = range(len(self))[index]
        return self.values[self.ends[index] : self.ends[index + 1]]

    def part(self, start: int, stop: int) -> "Ragged":
        """Return the rows from `start` up to `stop`, or up to the last row."""
        ends = self.ends[start : stop + 1]
        return Ragged(self.values[ends[0] : ends[-1]], ends - ends[0])

    @property
    def lengths(self) -> NDArray[np.int32]:
        """The numbers of values in the rows."""
        lengths = np.empty(len(self), np.int32)
        np.subtract(self.ends[1:], self.ends[:-1], out=lengths, casting="unsafe")
        return lengths

    def padded(
        self, rows: NDArray[np.integer[Any]], pad: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return B rows as a matrix (B, longest), and a mask that is False where it is padded.

        Args:
            rows: the numbers of the rows.
            pad: fills the matrix on the right.
        """
        starts = self.ends[rows]
        places = np.arange((self.ends[rows + 1] - starts).max(initial=0))
        mask = places < (self.ends[rows + 1] - starts)[:, None]
        matrix = np.full(mask.shape, pad, np.int64)
        matrix[mask] = self.values[(starts[:, None] + places)[mask]]
        return matrix, mask


def bounds(lengths: ArrayLike) -> NDArray[np.int64]:
    """Return the bounds of rows of the given lengths."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _mapped(file: Path, dtype: DTypeLike) -> NDArray[Any]:
    if not file.stat().st_size:  # which the system does not map
        return np.empty(0, dtype)
    return np.memmap(file, dtype, "r").view(np.ndarray)
