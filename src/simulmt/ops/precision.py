"""Float32 where bfloat16 would not do: a sum of 257 ones is 256 there."""

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """The same in float32 at least."""
    return x.to(wider(x.dtype))


def wider(dtype: torch.dtype) -> torch.dtype:
    """The type itself, or float32 if that is wider."""
    return torch.promote_types(dtype, torch.float32)
