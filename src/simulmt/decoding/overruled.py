"""A model in which a policy, not its heads, decides when to read (EMMA, Ma et al. 2023)."""

import copy
from dataclasses import replace

from simulmt.attention.clocks import FullSentence
from simulmt.models.model import Model


def overruled(model: Model) -> Model:
    """The same weights, with every head at the newest source token that has been read.

    Each step then comes with its heads' `readiness` to stop there, as its confidence.

    Args:
        model: a schedule decides in its layers.
    """
    assert not model.mechanism.clocked, "a clock has no heads to overrule"
    other, waits = copy.copy(model), FullSentence()
    other.mechanism, other.clock = replace(model.mechanism, schedule=waits), waits
    return other
