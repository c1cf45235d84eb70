"""Schedules: when a head stops reading."""

from simulmt.attention.schedules.fixed import FixedSchedule, FullSentence, WaitK
from simulmt.attention.schedules.monotonic import Monotonic
from simulmt.attention.schedules.schedule import Schedule, Stand

__all__ = ["SCHEDULES", "FixedSchedule", "FullSentence", "Monotonic", "Schedule", "Stand", "WaitK"]

SCHEDULES: dict[str, type[Schedule]] = {
    "full_sentence": FullSentence,
    "wait_k": WaitK,
    "monotonic": Monotonic,
}
"""What `mechanism.schedule` can name."""
