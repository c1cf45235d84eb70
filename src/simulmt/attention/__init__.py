"""Attention to a source that may still be growing: schedules, spans and scores.

Three questions make a mechanism: when to stop reading (`schedules`), what to look back on
(`spans`), how to score it (`scores`); `attention` puts the answers together and `mechanism`
builds them by name.
"""

from simulmt.attention.attention import Attended, Attention, Stepped
from simulmt.attention.mechanism import Mechanism, Usual
from simulmt.attention.memory import Memory

__all__ = ["Attended", "Attention", "Mechanism", "Memory", "Stepped", "Usual"]
