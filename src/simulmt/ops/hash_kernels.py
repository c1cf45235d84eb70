"""A hash of (seed, element) in 32-bit words, for kernels that need random numbers.

The hash goes twice through a mixer, once for each half of the seed (the constants are those of
"lowbias32", C. Wellons, hash-prospector).
"""

# mypy: disable-error-code="no-untyped-call"
from typing import Any

import numpy as np

from simulmt.ops.compiled import Array, compiled
from simulmt.ops.tiles import LANES

U = np.uint32  # or a sum of 32-bit words has 64 bits
FIRST, SECOND = U(0x21F0AAAD), U(0x735A2D97)
HALF, LESS = U(16), U(15)


@compiled
def _mixed(x: Any) -> Any:
    x = U(U(x ^ (x >> HALF)) * FIRST)
    x = U(U(x ^ (x >> LESS)) * SECOND)
    return U(x ^ (x >> LESS))


@compiled
def hashed(k: Any, low: Any, high: Any) -> Any:
    """The hash of element k, with the low and the high word of the seed."""
    return _mixed(U(_mixed(U(U(k) ^ low)) ^ high))


@compiled
def part(x: Array, first: int, last: int) -> Array:
    """The elements of some tiles. A loop over a slice vectorises."""
    return x[first * LANES : min(last * LANES, len(x))]
