"""Policies, a file each."""

from simulmt.decoding.policies.own_decision import OwnDecision

__all__ = ["OWN", "OwnDecision"]

OWN = OwnDecision()
"""The policy of every model that was trained with a clock or a schedule."""
