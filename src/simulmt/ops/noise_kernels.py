"""Standard normal numbers from hashes, compiled for the CPU.

    z = sqrt(2) * erfinv(x)        x = +-(1 - q), q the chance of a number farther from 0

The inverse of the error function is the approximation in single precision of M. Giles
("Approximating the erfinv function", GPU Computing Gems, 2011): two polynomials in
w = -log(1 - x^2), of which one is for w < 5. The logarithm is Cephes' `logf`, whose range here is
below 1. Both polynomials are computed and one is chosen, so that the loop vectorises.
"""

# mypy: disable-error-code="no-untyped-call"
import math
from typing import Any

import numpy as np

from simulmt.ops.compiled import ONE, Array, compiled
from simulmt.ops.cpu import LANES
from simulmt.ops.dropout_kernels import U, hashed, part

F = np.float32


def _polynomial(text: str) -> tuple[Any, ...]:
    """Coefficients, the highest power first."""
    return tuple(map(F, text.split()))


NEAR = _polynomial(
    "2.81022636e-08 3.43273939e-07 -3.5233877e-06 -4.39150654e-06 0.00021858087 -0.00125372503 "
    "-0.00417768164 0.246640727 1.50140941"
)
FAR = _polynomial(
    "-0.000200214257 0.000100950558 0.00134934322 -0.00367342844 0.00573950773 -0.0076224613 "
    "0.00943887047 1.00167406 2.83297682"
)
LOG = _polynomial(
    "7.0376836292e-2 -1.1514610310e-1 1.1676998740e-1 -1.2420140846e-1 1.4249322787e-1 "
    "-1.6668057665e-1 2.0000714765e-1 -2.4999993993e-1 3.3333331174e-1"
)
HALF, TWO, THREE, FIVE = F(0.5), F(2), F(3), F(5)
LN2, SQRT2, STEP = F(math.log(2)), F(math.sqrt(2)), F(2**-31)
ROOT, MANTISSA = np.int32(0x3F3504F3), np.int32(23)  # the bits of sqrt(1/2); bits of a mantissa
SIGN, REST = U(31), U(2**31 - 1)


@compiled
def _log(x: Any) -> Any:
    """The logarithm of a normal float32: x = 2^e (1 + m), with 1 + m from sqrt(1/2) to sqrt(2)."""
    bits = np.int32(np.float32(x).view(np.int32))
    e = np.int32((bits - ROOT) >> MANTISSA)
    m = np.int32(bits - np.int32(e << MANTISSA)).view(np.float32) - ONE
    y = LOG[0]
    for c in LOG[1:]:
        y = y * m + c
    return F(e) * LN2 + (m - HALF * m * m + m * m * m * y)


@compiled
def _normal(h: Any) -> Any:
    """The standard normal number of a hash."""
    q = (F(np.int32(h & REST)) + HALF) * STEP
    w = -_log(q * (TWO - q))
    a, b = w - (TWO + HALF), F(math.sqrt(w)) - THREE
    near, far = NEAR[0], FAR[0]
    for c in NEAR[1:]:
        near = near * a + c
    for c in FAR[1:]:
        far = far * b + c
    z = (near if w < FIVE else far) * (ONE - q) * SQRT2
    return -z if h >> SIGN else z


@compiled
def add_noise(arrays: tuple[Array], key: tuple[Any, Any, Any], first: int, last: int) -> None:
    """Add noise to x in place; the key is the seed's two words and the standard deviation."""
    low, high, std = key
    x = part(arrays[0], first, last)
    for i in range(len(x)):
        x[i] += std * _normal(hashed(first * LANES + i, low, high))
