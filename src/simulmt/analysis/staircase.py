"""The path of a sentence as a grid: the delay of each write, and the positions of heads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from simulmt.decoding.instance import Instance, word_positions


@dataclass(frozen=True)
class Staircase:
    """One decoded sentence, source units by target units.

    Attributes:
        columns: The source units.
        rows: The target units.
        delays: For each target unit, the number of source units that had been read.
        heads: For each target unit, the number of heads that stood at each column, from 1.
    """

    columns: Sequence[str]
    rows: Sequence[str]
    delays: Sequence[int]
    heads: Sequence[Counter[int]]

    def steps(self) -> Iterator[tuple[str, int, int, Counter[int]]]:
        """Return each target unit with the delay before it, its own delay, and its heads."""
        return zip(self.rows, [0, *self.delays], self.delays, self.heads, strict=False)

    def most_heads(self) -> int:
        """Return the largest number of heads in a cell."""
        return max((n for row in self.heads for n in row.values()), default=0)


def word_staircase(instance: Instance) -> Staircase:
    """Return the grid of a sentence in words."""
    heads = word_positions(instance)
    return _staircase(instance.source.split(), instance.prediction.split(), instance.delays, heads)


def piece_staircase(instance: Instance) -> Staircase:
    """Return the grid of a sentence in subwords; in words if the instance has no subwords."""
    rows, delays = instance.target_pieces, instance.subword_delays
    if not instance.source_pieces or len(rows) != len(delays):
        return word_staircase(instance)
    return _staircase(instance.source_pieces, rows, delays, instance.positions)


def _staircase(
    columns: Sequence[str], rows: Sequence[str], delays: Sequence[int],
    positions: Sequence[Sequence[int]],
) -> Staircase:  # fmt: skip
    """Return the grid, with a column for EOS only if a head stood at EOS, which was then read.

    A head that has run off the end stands nowhere.
    """
    n = len(columns)
    heads = [positions[i] if i < len(positions) else () for i in range(len(rows))]
    if any(position > n for row in heads for position in row):
        columns = [*columns, "</s>"]
    reach = [max((p for p in row if p > n), default=0) for row in heads]
    delays = [max(min(d, n), min(r, n + 1)) for d, r in zip(delays, reach, strict=True)]
    counted = [Counter(min(p, n + 1) for p in row if p) for row in heads]
    return Staircase(columns, rows, delays, counted)
