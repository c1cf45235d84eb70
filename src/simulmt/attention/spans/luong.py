"""The windows of Luong et al. 2015, section 3.2: around where a head stands, or around a guess."""

from __future__ import annotations

from abc import ABC

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.attention.spans.span import Look, Span, expectation, places


class Around(Span, ABC):
    """What both windows share.

    Args:
        window: D, in source positions.
    """

    def __init__(self, *, window: int) -> None:
        super().__init__()
        if window < 1:
            raise ValueError(f"window is {window}; it reaches at least 1 position to each side")
        self.window = window

    def expected(
        self,
        query: Float[Tensor, "B T D"],
        alpha: Float[Tensor, "B H T S"],
        energy: Float[Tensor, "B H T S"],
        mask: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B H T S"]:
        """By its definition."""
        return expectation(self, query, alpha, energy, mask)


class Window(Around):
    """`[p - D, p + D]` around the position p of the head: local-m, if that moves with the target.

    What lies outside the sentence is left out. A head sees D positions ahead, so they have to be
    read before it is asked. One that would be past the sentence's end stands at the last position,
    which stays the centre.

    Args:
        window: D, in source positions.
        gaussian: whether weights are multiplied by `exp(-(j - p)^2 / (2 sigma^2))`, `sigma = D/2`,
            as local-p does; they then sum to less than 1.
    """

    def __init__(self, *, window: int, gaussian: bool) -> None:
        super().__init__(window=window)
        self.gaussian = self.dampens = gaussian
        self.ahead = window

    def look(
        self, query: Float[Tensor, "B T D"], position: Int[Tensor, "B H T"], length: int
    ) -> Look:
        """`|j - p| <= D`."""
        away = places(position, length) - position[..., None]
        visible = (away.abs() <= self.window) & (position > 0)[..., None]
        if not self.gaussian:
            return Look(visible)
        return Look(visible, gaussian(away.to(exact(query.dtype)), self.window))


class PredictedWindow(Around):
    """local-p: `[p - D, p + D]` around `p = t sigmoid(v^T tanh(W s))`, with a Gaussian.

    t is where the head stands: the end of the sentence in the paper, so that the guess is a share
    of the sentence; the end of what was read with another schedule.

    Args:
        dim: width of the queries.
        heads: number of heads, each with a guess of its own.
        window: D, in source positions; the Gaussian's sigma is D/2.
    """

    dampens = True

    def __init__(self, *, dim: int, heads: int, window: int) -> None:
        super().__init__(window=window)
        self.hidden = nn.Linear(dim, dim, bias=False)
        self.share = nn.Linear(dim, heads, bias=False)
        for projection in (self.hidden, self.share):
            nn.init.xavier_uniform_(projection.weight)

    def look(
        self, query: Float[Tensor, "B T D"], position: Int[Tensor, "B H T"], length: int
    ) -> Look:
        """`|j - p| <= D` and `j <= t`."""
        guess = self.share(torch.tanh(self.hidden(query))).transpose(1, 2)  # (B, H, T)
        centre = position * torch.sigmoid(guess.to(exact(guess.dtype)))
        j = places(position, length)
        away = j - centre[..., None]
        visible = (away.abs() <= self.window) & (j <= position[..., None])
        return Look(visible, gaussian(away, self.window))


def gaussian(away: Float[Tensor, "*N"], window: int) -> Float[Tensor, "*N"]:
    """`exp(-away^2 / (2 sigma^2))`, `sigma = D / 2` (eq. 10)."""
    return torch.exp(-2 * (away / window).square())


def exact(dtype: torch.dtype) -> torch.dtype:
    """Float32 at least: bfloat16 cannot tell position 257 from 256."""
    return torch.promote_types(dtype, torch.float32)
