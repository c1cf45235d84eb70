"""Scores: how well a query matches a source state, one short file for each family."""

from collections.abc import Callable
from functools import partial

from simulmt.attention.scores.additive import Additive, NormalisedAdditive
from simulmt.attention.scores.luong import Dot, General, Location
from simulmt.attention.scores.perceptron import Perceptron
from simulmt.attention.scores.scaled_dot_product import ScaledDotProduct
from simulmt.attention.scores.score import ScoreFunction

__all__ = ["SCORES", "NormalisedAdditive", "Perceptron", "ScaledDotProduct", "ScoreFactory"]

ScoreFactory = Callable[[int, int], ScoreFunction]
"""Builds a score from the width of the states and the number of heads."""

SCORES: dict[str, ScoreFactory] = {
    "scaled_dot_product": ScaledDotProduct,
    "additive": Additive,
    "dot": Dot,
    "general": General,
    "concat": partial(Additive, bias=False),
    "location": Location,
}
"""What `mechanism.score` can name, besides `usual`."""
