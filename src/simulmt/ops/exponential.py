"""The exponential function in compiled code, of one number or of sixteen."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic, overload

from simulmt.ops.compiled import ONE
from simulmt.ops.lanes import Lanes, choose
from simulmt.ops.tiles import LANES


def exp(x: Any) -> Any:
    """The exponential of x <= 0; what would be subnormal is 0. Compiled code only."""
    raise NotImplementedError


@overload(exp)
def _exp_overload(x: Any) -> Any:
    if (x.dtype if isinstance(x, Lanes) else x) != types.float32:

        def exp_float64(x: Any) -> Any:
            return math.exp(x)

        return exp_float64

    # exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2, where the Taylor polynomial
    # of degree 7 is exact to 5e-9. Adding 1.5 * 2^23 rounds to an integer, and leaves that
    # integer in the low bits, from where a shift makes it an exponent.
    log2e, shift = np.float32(1 / math.log(2)), np.float32(1.5 * 2**23)
    ln2_high = np.float32(0.693359375)  # 355 / 512: n * ln2_high is exact
    ln2_low = np.float32(math.log(2) - 0.693359375)
    c2, c3, c4, c5, c6, c7 = (np.float32(1 / math.factorial(k)) for k in range(2, 8))
    zero, least = np.float32(0), np.float32(-87)

    def exp_float32(x: Any) -> Any:
        shifted = x * log2e + shift
        n = shifted - shift
        r = (x - n * ln2_high) - n * ln2_low
        y = ((((c7 * r + c6) * r + c5) * r + c4) * r + c3) * r + c2
        y = (y * r + ONE) * r + ONE
        return choose(least, x, zero, y * _power_of_two(shifted))  # not a number stays one

    return exp_float32


def _power_of_two(shifted: Any) -> Any:
    """2^n where the low bits of a float32 are n."""
    raise NotImplementedError


def _power_bits(typing: Any, shifted: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word: Any = ir.IntType(32)
        bias, mantissa = ir.Constant(word, 127), ir.Constant(word, 23)
        if isinstance(shifted, Lanes):
            word = ir.VectorType(word, LANES)
            bias, mantissa = ir.Constant(word, [127] * LANES), ir.Constant(word, [23] * LANES)
        exponent = builder.add(builder.bitcast(args[0], word), bias)
        return builder.bitcast(builder.shl(exponent, mantissa), args[0].type)

    return shifted(shifted), codegen


_power: Any = intrinsic(_power_bits)


@overload(_power_of_two)
def _power_overload(shifted: Any) -> Any:
    def power(shifted: Any) -> Any:
        return _power(shifted)

    return power
