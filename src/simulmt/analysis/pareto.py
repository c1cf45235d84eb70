"""The Pareto front: systems that no other system beats in quality and latency at once."""

from __future__ import annotations

import math
from collections.abc import Sequence


def pareto_front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Return whether each point is on the Pareto front.

    A point is off the front if another point is at least as good in both and better in one; equal
    points are on it together.

    Args:
        points: The latency (less is better) and the quality (more is better) of each system.
    """
    ordered = sorted({*points}, key=lambda point: (point[0], -point[1]))
    front, best = set(), -math.inf
    for latency, quality in ordered:
        if quality > best:
            front.add((latency, quality))
            best = quality
    return [point in front for point in points]
