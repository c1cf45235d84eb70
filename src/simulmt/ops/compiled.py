"""What every kernel in numba is made with.

numba's cache notices changes of the file that a kernel is defined in, not of this one or of
`compiled_tiles`, `lanes` and `exponential`: after a change here or there, remove `__pycache__`.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

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
