"""What every kernel in numba is made with.

numba's cache notices changes of the file that a kernel is defined in, not of this one or of
`compiled_tiles`: after a change here or there, remove `__pycache__` beside it.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import types
from numba.extending import overload

F = TypeVar("F", bound=Callable[..., Any])

# A float32 constant keeps float32 arithmetic in float32, which a Python number would not.
ONE = np.float32(1)


def compiled(function: F, *, any_order: bool = False) -> F:
    """Compile on the first call; keep the machine code on disk where there is a place for it.

    Args:
        function: a kernel.
        any_order: whether sums may be reordered, so that they vectorise.
    """
    # "contract" lets a * b + c round once instead of twice; nothing is reordered or dropped.
    allowed = {"contract", "reassoc"} if any_order else {"contract"}
    kernel = numba.njit(nogil=True, error_model="numpy", fastmath=allowed)(function)
    try:
        kernel.enable_caching()
    except RuntimeError:  # no writable folder, neither here nor in the home: compile every time
        return cast(F, kernel)
    return cast(F, kernel)


def exp(x: Any) -> Any:
    """The exponential of x <= 0; what would be subnormal is 0. Compiled code only."""
    raise NotImplementedError


@overload(exp)
def _exp_overload(x: Any) -> Any:
    if x != types.float32:

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

    def exp_float32(x: Any) -> Any:
        shifted = x * log2e + shift
        n = shifted - shift
        r = (x - n * ln2_high) - n * ln2_low
        y = ((((c7 * r + c6) * r + c5) * r + c4) * r + c3) * r + c2
        y = (y * r + ONE) * r + ONE
        power = np.int32((np.float32(shifted).view(np.int32) + 127) << 23).view(np.float32)
        return np.float32(0) if x < np.float32(-87) else y * power  # not a number stays one

    return exp_float32
