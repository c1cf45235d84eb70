"""The usual scores, heads and projections of a family of models."""

from dataclasses import dataclass

from simulmt.attention.scores import NormalisedAdditive, ScaledDotProduct, ScoreFactory
from simulmt.attention.scores.additive import Additive


@dataclass(frozen=True)
class Usual:
    """What a model uses where the mechanism leaves the choice to the model."""

    selection: ScoreFactory
    """Builds the score of a schedule."""
    soft: ScoreFactory
    """Builds the score of a span."""
    many_heads: bool
    """True if attention that is not monotonic has several heads."""
    projected: bool
    """True if values and contexts are projected even for one head."""


TRANSFORMER = Usual(ScaledDotProduct, ScaledDotProduct, many_heads=True, projected=True)
"""Scaled dot products of all heads, with projected values (MMA, Ma et al. 2020)."""
RECURRENT = Usual(NormalisedAdditive, Additive, many_heads=False, projected=False)
"""Additive energies, one head unless the mechanism is multihead, contexts that are sums of states
(MILk, Arivazhagan et al. 2019; Raffel et al. 2017)."""
