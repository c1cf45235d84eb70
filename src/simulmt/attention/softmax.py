"""The one softmax of attention."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def masked_softmax(
    energy: Float[Tensor, "*N S"], visible: Bool[Tensor, "*#N S"]
) -> Float[Tensor, "*N S"]:
    """Softmax over the visible positions; a row without visible positions is zero everywhere.

    `visible` broadcasts to the shape of `energy`.
    """
    lowest = torch.finfo(energy.dtype).min
    return energy.masked_fill(~visible, lowest).softmax(-1).masked_fill(~visible, 0.0)
