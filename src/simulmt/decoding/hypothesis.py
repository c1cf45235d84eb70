"""What was written for one sentence, and when."""

from __future__ import annotations

from typing import NamedTuple


class Hypothesis(NamedTuple):
    """A translation in subwords."""

    tokens: list[int]
    """Subwords, without EOS."""
    delays: list[int]
    """Source tokens read, EOS included, before each subword was written."""
    positions: list[list[int]]
    """For each subword, where every head of every layer stood."""

    def write(self, token: int, delay: int, positions: list[int]) -> None:
        """Add a subword."""
        self.tokens.append(token)
        self.delays.append(delay)
        self.positions.append(positions)
