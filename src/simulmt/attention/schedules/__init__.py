"""Schedules, a file each, and the table that `mechanism.schedule` is looked up in."""

from simulmt.attention.clock import ClockRecipe
from simulmt.attention.clocks import (
    FullSentence,
    HiddenMarkov,
    MultiPath,
    Prefixes,
    WaitInfo,
    WaitK,
)
from simulmt.attention.schedule import ScheduleRecipe
from simulmt.attention.schedules.itst import Itst
from simulmt.attention.schedules.monotonic import Monotonic, MonotonicHeads

__all__ = ["SCHEDULES", "Itst", "Monotonic", "MonotonicHeads"]

SCHEDULES: dict[str, type[ClockRecipe] | type[ScheduleRecipe]] = {
    "full_sentence": FullSentence,
    "prefixes": Prefixes,
    "wait_k": WaitK,
    "multi_path": MultiPath,
    "wait_info": WaitInfo,
    "hidden_markov": HiddenMarkov,
    "monotonic": Monotonic,
    "itst": Itst,
}
"""What `mechanism.schedule` can name: clocks, which decide before the decoder, and schedules, which
decide inside its attention."""
