"""Dropout over flat arrays, compiled for the CPU: a hash of (seed, k) decides if element k is kept.

An element is kept if its hash is below a threshold, so probabilities have steps of 2^-32. The hash
goes twice through a mixer of 32-bit words, once for each half of the seed (the constants are those
of "lowbias32", C. Wellons, hash-prospector). All kernels have one signature: arrays, key, tiles.
"""

# mypy: disable-error-code="no-untyped-call"
from typing import Any, TypeAlias

import numpy as np

from simulmt.ops.compiled import Array, compiled
from simulmt.ops.cpu import LANES

Arrays: TypeAlias = tuple[Array, ...]
Key: TypeAlias = tuple[Any, Any, Any, Any]
"""Low and high word of the seed, the threshold, and what a kept element is multiplied by."""
U = np.uint32  # or a sum of 32-bit words has 64 bits
FIRST, SECOND = U(0x21F0AAAD), U(0x735A2D97)
HALF, LESS = U(16), U(15)


@compiled
def _mixed(x: Any) -> Any:
    x = U(U(x ^ (x >> HALF)) * FIRST)
    x = U(U(x ^ (x >> LESS)) * SECOND)
    return U(x ^ (x >> LESS))


@compiled
def _hashed(k: Any, low: Any, high: Any) -> Any:
    """The hash of element k, with the low and the high word of the seed."""
    return _mixed(U(_mixed(U(U(k) ^ low)) ^ high))


@compiled
def _part(x: Array, first: int, last: int) -> Array:
    """The elements of some tiles. A loop over a slice vectorises."""
    return x[first * LANES : min(last * LANES, len(x))]


@compiled
def _factor(k: Any, key: Key) -> Any:
    """What element k is multiplied by: the scale, or 0."""
    low, high, threshold, scale = key
    kept = _hashed(k, low, high) < threshold
    return scale if kept else scale - scale


@compiled
def dropped(arrays: Arrays, key: Key, first: int, last: int) -> None:
    """From x to dropout(x)."""
    x, out = _part(arrays[0], first, last), _part(arrays[1], first, last)
    for i in range(len(x)):
        out[i] = x[i] * _factor(first * LANES + i, key)


@compiled
def added(arrays: Arrays, key: Key, first: int, last: int) -> None:
    """From x and y to x + dropout(y)."""
    x, y = _part(arrays[0], first, last), _part(arrays[1], first, last)
    out = _part(arrays[2], first, last)
    for i in range(len(x)):
        out[i] = x[i] + y[i] * _factor(first * LANES + i, key)


@compiled
def rectified(arrays: Arrays, key: Key, first: int, last: int) -> None:
    """From x to dropout(relu(x))."""
    x, out = _part(arrays[0], first, last), _part(arrays[1], first, last)
    zero = x.dtype.type(0)
    for i in range(len(x)):
        out[i] = (zero if x[i] < zero else x[i]) * _factor(first * LANES + i, key)


@compiled
def rectified_adjoint(arrays: Arrays, key: Key, first: int, last: int) -> None:
    """From the gradient and the output of `rectified` to the gradient of x; needs no hash."""
    grad, out = _part(arrays[0], first, last), _part(arrays[1], first, last)
    grad_x, scale = _part(arrays[2], first, last), key[3]
    for i in range(len(grad)):
        grad_x[i] = grad[i] * (scale if out[i] > 0 else scale - scale)
