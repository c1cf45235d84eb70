"""Objectives: what training minimises, and the table that `objective.name` is looked up in."""

from simulmt.objective.latency_augmented import LatencyAugmented
from simulmt.objective.marginal_likelihood import MarginalLikelihood
from simulmt.objective.objective import Loss, Objective
from simulmt.objective.self_modifying import SelfModifying

__all__ = [
    "OBJECTIVES",
    "LatencyAugmented",
    "Loss",
    "MarginalLikelihood",
    "Objective",
    "SelfModifying",
]

OBJECTIVES: dict[str, type[Objective]] = {
    "latency_augmented": LatencyAugmented,
    "self_modifying": SelfModifying,
    "marginal_likelihood": MarginalLikelihood,
}
"""What `objective.name` can name."""
