"""Numbers too small for full precision count as zero."""

from __future__ import annotations

import torch


def flush_denormals() -> bool:
    """Have this thread, and those that it starts, take float32 numbers below 1.2e-38 as zero.

    An expected alignment falls by the probability of stopping at every position, so that far from
    where a head stands it underflows, and some processors, Intel's among them, are very slow with
    such numbers.

    Returns:
        Whether the processor can.
    """
    return bool(torch.set_flush_denormal(True))
