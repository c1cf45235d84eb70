"""Policies, a file each, and the table that `policy.name` is looked up in."""

from simulmt.decoding.policies.own_decision import OwnDecision
from simulmt.decoding.policy import Policy

__all__ = ["OWN", "POLICIES", "OwnDecision"]

OWN = OwnDecision()
"""The default policy: the model's clock or schedules decide."""

POLICIES: dict[str, type[Policy]] = {"own": OwnDecision}
"""What `policy.name` can name."""
