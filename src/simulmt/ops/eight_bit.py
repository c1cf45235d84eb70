"""Matrix products with 8-bit weights, several times as fast as in float32 on a CPU.

Each row of a weight matrix, and each vector that it multiplies, is rounded to 8 bits with its own
scale; the sums are exact. So the product of a vector does not depend on the others of a batch.

The operators are oneDNN's, as `torch.compile` uses them. torchao's need `torch.compile` to be fast.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from simulmt.errors import UserError

LEVELS = 127
"""The largest rounded value."""
VNNI = ("avx512_vnni", "avx_vnni")
"""The instructions for 8-bit products, of which the processor needs one; others may overflow."""
ZERO = 128
"""What stands for 0 in a rounded vector, which oneDNN takes without a sign."""


@dataclass(frozen=True, eq=False)
class EightBit:
    """A weight matrix (N, D) in the place of a float32 one, in `torch.nn.functional.linear`."""

    packed: Tensor
    """As oneDNN reads it."""
    scale: Float[Tensor, "N"]
    """What a rounded value of 1 stands for in each row of the matrix."""
    offset: Int[Tensor, "N"]
    """What stands for 0 in each row of the matrix: 0."""

    @classmethod
    def of(cls, weight: Float[Tensor, "N D"]) -> "EightBit":
        """Round a matrix.

        Raises:
            UserError: the processor has no 8-bit products.
        """
        if not any(_processor().get(name) for name in VNNI):
            raise UserError(
                "weights=int8 needs a processor with VNNI, such as Intel's since 2019 and AMD's "
                "since 2022: leave out weights"
            )
        scale = _scale(weight)
        rounded = (weight / scale).round().to(torch.int8)
        packed = torch.ops.onednn.qlinear_prepack(rounded, None)
        return cls(packed, scale[:, 0], torch.zeros(len(weight), dtype=torch.long))

    def times(self, x: Float[Tensor, "*B D"], bias: Tensor | None = None) -> Float[Tensor, "*B N"]:
        """The products of the matrix with vectors."""
        flat = x.reshape(-1, x.shape[-1])
        scale = _scale(flat)
        rounded = (flat / scale).round_().add_(ZERO).to(torch.uint8)
        y: Tensor = torch.ops.onednn.qlinear_pointwise(
            *(rounded, 1.0, ZERO, self.packed, self.scale, self.offset, None),
            *(1.0, 0, torch.float32, "none", [], ""),
        )
        y = y.mul_(scale) if bias is None else torch.addcmul(bias, y, scale)
        return y.view(*x.shape[:-1], len(self.scale))

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """What PyTorch calls in the place of its own function."""
        if function is not functional.linear:
            return NotImplemented
        x, weight, *bias = args
        return weight.times(x, *bias, **kwargs or {})


def _processor() -> Mapping[str, object]:
    """What the processor can do."""
    return torch.cpu.get_capabilities()


def _scale(rows: Float[Tensor, "N D"]) -> Float[Tensor, "N 1"]:
    """What the largest value of each row is divided by."""
    largest = rows.abs().amax(1, keepdim=True)
    return largest.clamp_(min=torch.finfo(rows.dtype).tiny * LEVELS).div_(LEVELS)
