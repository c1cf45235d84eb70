"""Schedules, a file each, and the table that `mechanism.schedule` is looked up in."""

from simulmt.attention import clocks
from simulmt.attention.clock import ClockRecipe
from simulmt.attention.schedule import ScheduleRecipe
from simulmt.attention.schedules.itst import Itst
from simulmt.attention.schedules.monotonic import Monotonic, MonotonicHeads

__all__ = ["SCHEDULES", "Itst", "Monotonic", "MonotonicHeads"]

SCHEDULES: dict[str, type[ClockRecipe] | type[ScheduleRecipe]] = {
    "full_sentence": clocks.FullSentence,
    "prefixes": clocks.Prefixes,
    "wait_k": clocks.WaitK,
    "multi_path": clocks.MultiPath,
    "wait_info": clocks.WaitInfo,
    "hidden_markov": clocks.HiddenMarkov,
    "monotonic": Monotonic,
    "itst": Itst,
}
"""What `mechanism.schedule` can name: clocks, which decide before the decoder, and schedules, which
decide inside its attention."""
