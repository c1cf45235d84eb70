"""The scaled dot product (Vaswani et al. 2017), the score of Transformers."""

import math
from abc import ABC

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from simulmt.attention.initial import xavier
from simulmt.attention.scores.score import ScoreFunction, products, split_heads
from simulmt.attention.shapes import Energies, Keys, Queries


class ProjectedDotProduct(ScoreFunction, ABC):
    """`q(s) . k(h) / sqrt(d_head)`, each head with its slice of what q and k give.

    Args:
        heads: number of heads.
        query: q.
        key: k.
    """

    def __init__(self, heads: int, query: nn.Module, key: nn.Module) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = query, key

    def keys(self, states: Float[Tensor, "B S D"]) -> Keys:
        """Projected states, split into heads."""
        return split_heads(self.key(states), self.heads)

    def forward(self, query: Queries, keys: Keys) -> Energies:
        """Scaled dot products of every query with every key."""
        return products(self.query(query) / math.sqrt(keys.shape[-1]), keys)

    def attend(
        self,
        query: Queries,
        keys: Keys,
        values: Float[Tensor, "B H S v"],
        visible: Bool[Tensor, "B #H T S"],
        shift: Float[Tensor, "B #H T S"] | None = None,
    ) -> Float[Tensor, "B H T v"]:
        """The same average from torch's fused kernel, which never stores the weights."""
        queries = split_heads(self.query(query), self.heads)
        mask = visible if shift is None else shift.masked_fill(~visible, -math.inf)
        return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


class ScaledDotProduct(ProjectedDotProduct):
    """`(W_q s)(W_k h)^T / sqrt(d_head)`, one projection pair per head.

    The keys have no bias. A bias would add the same to all energies of a query, which a softmax
    does not see; selection energies have the scalar r of their schedule instead.
    """

    query: nn.Linear

    def __init__(self, dim: int, heads: int) -> None:
        layers = nn.Linear(dim, dim), nn.Linear(dim, dim, bias=False)
        super().__init__(heads, *xavier(*layers, gain=1 / math.sqrt(2)))
