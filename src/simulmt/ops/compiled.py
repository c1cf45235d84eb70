"""Shared by all kernels in numba: the compiler's settings, and functions that vectorise."""

# mypy: disable-error-code="no-untyped-call"
import contextlib
import functools
import hashlib
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import numba
import numpy as np
from llvmlite.binding import get_host_cpu_name
from numba.extending import overload

F = TypeVar("F", bound=Callable[..., Any])
Array: TypeAlias = "np.ndarray[Any, Any]"

ONE = np.float32(1)  # float32 arithmetic stays in float32, which a Python number would change

_config: Any = numba.config


@functools.cache
def _cache_folder() -> str:
    """Return a folder for the machine code of this version of the kernels, for this processor.

    numba checks only a kernel's own file for changes, while kernels call helpers in other files. So
    the folder's name is a digest of the times and sizes of all files here. Machines that share the
    folder may have different processors, and numba's index is not locked.
    """
    here = Path(__file__).parent
    files = [path.stat() for path in sorted(here.glob("*.py"))]
    stamp = repr([get_host_cpu_name(), *((file.st_mtime_ns, file.st_size) for file in files)])
    own = here if os.access(here, os.W_OK) else Path.home() / ".cache" / "simulmt"
    place = Path(_config.CACHE_DIR or own / "__pycache__")
    return str(place / f"kernels-{hashlib.sha256(stamp.encode()).hexdigest()[:16]}")


def compiled(function: F, *, any_order: bool = False) -> F:
    """Compile a kernel on its first call, and keep the machine code on disk if possible.

    Args:
        function: the kernel.
        any_order: allow sums to be reordered, so that they vectorise.

    Returns:
        The compiled kernel, which runs without the GIL.
    """
    # Not "contract": which products and sums round once would depend on inlining, and so on whether
    # the code has just been compiled or was read from disk.
    allowed = {"reassoc"} if any_order else set[str]()
    kernel: Any = numba.njit(nogil=True, error_model="numpy", fastmath=allowed)(function)
    folder, before = _cache_folder(), _config.CACHE_DIR
    _config.CACHE_DIR = folder
    with contextlib.suppress(RuntimeError):  # no writable folder: compile in every process
        kernel.enable_caching()
    _config.CACHE_DIR = before
    return cast(F, kernel)


def exp(x: Any) -> Any:
    """The exponential of a number x <= 0, with 0 for subnormal results. Compiled code only."""
    raise NotImplementedError


@overload(exp)
def _exp_overload(x: Any) -> Any:
    return _exp_float32 if x == numba.float32 else _exp_float64


def _exp_float64(x: Any) -> Any:
    return math.exp(x)


# exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2, where the Taylor polynomial of
# degree 7 is exact to 5e-9. Adding and subtracting 1.5 * 2^23 rounds a float32 to an integer.
LOG2_E, SHIFT = np.float32(1 / math.log(2)), np.float32(1.5 * 2**23)
LN2_HIGH = np.float32(0.693359375)  # 355 / 512: n * LN2_HIGH is exact
LN2_LOW = np.float32(math.log(2) - 0.693359375)
C2, C3, C4, C5, C6, C7 = (np.float32(1 / math.factorial(k)) for k in range(2, 8))
ZERO, LEAST = np.float32(0), np.float32(-87)


def _exp_float32(x: Any) -> Any:
    n = x * LOG2_E + SHIFT - SHIFT
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    y = ((((C7 * r + C6) * r + C5) * r + C4) * r + C3) * r + C2
    y = (y * r + ONE) * r + ONE
    power = np.int32((np.int32(n) + 127) << 23).view(np.float32)
    return ZERO if x < LEAST else y * power  # NaN stays NaN


@compiled
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)) of a number. Compiled code only."""
    e = exp(-abs(x))
    return (ONE if x > 0 else e) / (ONE + e)
