"""Policies, a file each."""

from simulmt.decoding.policies.own_decision import OwnDecision

__all__ = ["OWN", "OwnDecision"]

OWN = OwnDecision()
"""The default policy: the model's clock or schedules decide."""
