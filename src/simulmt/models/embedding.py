"""The embedding of a Transformer's tokens, with their positions (Vaswani et al. 2017)."""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from simulmt.ops.eight_bit import EightBit


class TiedEmbedding(nn.Embedding):
    """An embedding whose matrix is the output layer's, too.

    The gradient of the output layer is dense. On a CPU the gradients of the embedded tokens are
    sparse, and `_Twice` adds their rows to it. A dense one would be a second matrix, mostly zeros.
    """

    output: EightBit | None = None
    """The rounded matrix of the output layer, if there is one."""

    def forward(self, tokens: Int[Tensor, "B N"], weight: Tensor | None = None) -> Tensor:
        """The rows (B, N, D) of the tokens, of the matrix or of what `twice` gives for it."""
        weight = self.weight if weight is None else weight
        sparse = weight.device.type == "cpu" and not torch.compiler.is_compiling()
        return functional.embedding(tokens, weight, sparse=sparse)

    def twice(self) -> tuple[Float[Tensor, "V D"], Float[Tensor, "V D"]]:
        """The matrix for the embedding and for the output layer of one pass."""
        if torch.compiler.is_compiling():
            return self.weight, self.weight
        return _Twice.apply(self.weight)  # type: ignore[no-any-return, no-untyped-call]

    def scaled(
        self, tokens: Int[Tensor, "B N"], weight: Tensor | None = None
    ) -> Float[Tensor, "B N D"]:
        """Embedded tokens times the root of their width, which gives them a scale of 1."""
        return self(tokens, weight=weight) * math.sqrt(self.embedding_dim)  # type: ignore[no-any-return]

    def placed(
        self, tokens: Int[Tensor, "B N"], start: Int[Tensor, "#B 1"], weight: Tensor | None = None
    ) -> Float[Tensor, "B N D"]:
        """Scaled embeddings with the positions `start`, `start + 1`, ..., from 0."""
        x = self.scaled(tokens, weight)
        return x + sinusoids(start, tokens.shape[1], self.embedding_dim).to(x.dtype)


class _Twice(torch.autograd.Function):
    """One matrix as two; the gradient of the first is added to that of the second without a copy.

    Autograd would add a sparse gradient to a dense one in new memory.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        return weight.view_as(weight), weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, rows: Tensor | None, whole: Tensor | None) -> Tensor | None:
        if rows is None or whole is None:
            return whole if rows is None else rows
        return whole.add_(rows)  # in place: nothing else holds the gradient of a product


def sinusoids(first: Int[Tensor, "B 1"], count: int, dim: int) -> Float[Tensor, "B N D"]:
    """Sinusoidal positions `first, first + 1, ...` (Vaswani et al. 2017, section 3.5)."""
    half = dim // 2
    rate = torch.exp(torch.arange(half, device=first.device) * (-math.log(10000.0) / half))
    place = first + torch.arange(count, device=first.device)
    angle = place[..., None] * rate
    return torch.cat([angle.sin(), angle.cos()], -1)
