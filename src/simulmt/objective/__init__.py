"""Objectives: what training minimises, and the table that `objective.name` is looked up in."""

from simulmt.objective.latency_augmented import LatencyAugmented
from simulmt.objective.objective import Loss, Objective

__all__ = ["OBJECTIVES", "LatencyAugmented", "Loss", "Objective"]

OBJECTIVES: dict[str, type[Objective]] = {"latency_augmented": LatencyAugmented}
"""What `objective.name` can name."""
