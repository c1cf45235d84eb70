"""The scores of Luong et al. 2015: dot, general and location; concat is `Additive` without bias."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from simulmt.attention.initial import xavier
from simulmt.attention.scores.score import ScoreFunction, no_keys, products, split_heads
from simulmt.attention.shapes import Energies, Keys, Queries


class Dot(ScoreFunction):
    """`s^T h`; each head compares its own slice of s and h."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.key: nn.Module = nn.Identity()

    def keys(self, states: Float[Tensor, "B S D"]) -> Keys:
        """The states, or their projections, split into heads."""
        return split_heads(self.key(states), self.heads)

    def forward(self, query: Queries, keys: Keys) -> Energies:
        """Dot products without scaling."""
        return products(query, keys)


class General(Dot):
    """`s^T W h`, the dot product with projected states."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__(dim, heads)
        (self.key,) = xavier(nn.Linear(dim, dim, bias=False))


class Location(ScoreFunction):
    """`(W s)_j`: an energy for each source position, whatever token stands there.

    W has `PLACES` positions. Positions beyond the last of them get no weight, as in the paper,
    unless a head sees no others.
    """

    PLACES = 256

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        (self.places,) = xavier(nn.Linear(dim, heads * self.PLACES, bias=False))

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B H S 0"]:
        """Keys of width 0: the states play no part."""
        return no_keys(states, self.heads)

    def forward(self, query: Queries, keys: Float[Tensor, "B H S 0"]) -> Energies:
        """The first S positions of `W s`."""
        S = keys.shape[2]
        energy = split_heads(self.places(query), self.heads)[..., :S]  # (B, H, T, <= S)
        beyond = S - energy.shape[-1]
        lowest = torch.finfo(energy.dtype).min / 2  # above the energy of invisible positions
        return nn.functional.pad(energy, (0, beyond), value=lowest)
