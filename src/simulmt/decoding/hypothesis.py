"""The translation of one sentence: its subwords and their delays."""

from typing import NamedTuple


class Hypothesis(NamedTuple):
    """A translation in subwords, with the delay of each subword."""

    tokens: list[int]
    """Subwords, without EOS."""
    delays: list[int]
    """Number of source tokens read, EOS included, before each subword was written."""
    positions: list[list[int]]
    """For each subword, the source position of every head of every layer."""
    erased: list[tuple[int, ...]] | None = None
    """The words that were shown and taken back; None unless the policy revises."""

    def write(self, token: int, delay: int, positions: list[int]) -> None:
        """Append a subword."""
        self.tokens.append(token)
        self.delays.append(delay)
        self.positions.append(positions)
