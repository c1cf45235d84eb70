"""What the recurrent models have in common."""

from __future__ import annotations

from simulmt.attention import Usual
from simulmt.attention.scores import Additive, NormalisedAdditive

RECURRENT = Usual(NormalisedAdditive, Additive, many_heads=False, projected=False)
"""Additive energies, one head unless the mechanism is multihead, contexts that are sums of states
(MILk, Arivazhagan et al. 2019; Raffel et al. 2017)."""
