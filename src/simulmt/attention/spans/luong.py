"""The windows of Luong et al. 2015, section 3.2: around a head's position, or around a guess."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from simulmt.attention.initial import xavier
from simulmt.attention.memory import places
from simulmt.attention.shapes import Queries
from simulmt.attention.spans.span import Look, PlainSpan, Span, SpanRecipe, SpanTraits
from simulmt.ops.precision import wide, wider
from simulmt.options import Count, limited


@limited
@dataclass(frozen=True)
class Window(PlainSpan):
    """`[p - D, p + D]` around the position p of the head; local-m if p moves with the target.

    Positions outside the sentence are left out. The D positions ahead have to be read before the
    head can attend. A head never moves past the last position, which then stays the centre.

    Args:
        window: D, in source positions.
        gaussian: whether weights are multiplied by `exp(-(j - p)^2 / (2 sigma^2))`, `sigma = D/2`,
            as in local-p; the weights then sum to less than 1.
    """

    window: Count
    gaussian: bool

    @property
    def traits(self) -> SpanTraits:
        """D positions ahead; dampened by the Gaussian."""
        return SpanTraits(ahead=self.window, dampens=self.gaussian)

    def look(self, query: Queries, position: Int[Tensor, "B #H T"], length: int) -> Look:
        """`|j - p| <= D`."""
        away = places(position, length) - position[..., None]
        visible = (away.abs() <= self.window) & (position > 0)[..., None]
        if not self.gaussian:
            return Look(visible)
        return Look(visible, gaussian(away.to(wider(query.dtype)), self.window))


@limited
@dataclass(frozen=True)
class PredictedWindow(SpanRecipe):
    """local-p: `[p - D, p + D]` around `p = t sigmoid(v^T tanh(W s))`, with a Gaussian.

    t is the position of the head. In the paper t is the end of the sentence, so the guess is a
    share of the sentence; with other schedules t is the last token that the head has read.

    Args:
        window: D, in source positions; the Gaussian's sigma is D/2.
    """

    window: Count

    def build(self, dim: int, heads: int) -> Span:
        """A guess for each head."""
        return Guess(dim, heads, self.window)


class Guess(nn.Module, Span):
    """The window of one layer's heads, each with its own guess.

    Args:
        dim: width of the queries.
        heads: number of heads.
        window: D, in source positions.
    """

    def __init__(self, dim: int, heads: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.hidden, self.share = xavier(
            nn.Linear(dim, dim, bias=False), nn.Linear(dim, heads, bias=False)
        )

    @property
    def traits(self) -> SpanTraits:
        """Dampened by the Gaussian."""
        return SpanTraits(dampens=True)

    def look(self, query: Queries, position: Int[Tensor, "B #H T"], length: int) -> Look:
        """`|j - p| <= D` and `j <= t`."""
        guess = self.share(torch.tanh(self.hidden(query))).transpose(1, 2)  # (B, H, T)
        centre = position * torch.sigmoid(wide(guess))
        j = places(position, length)
        away = j - centre[..., None]
        visible = (away.abs() <= self.window) & (j <= position[..., None])
        return Look(visible, gaussian(away, self.window))


def gaussian(away: Float[Tensor, "*N"], window: int) -> Float[Tensor, "*N"]:
    """`exp(-away^2 / (2 sigma^2))`, `sigma = D / 2` (eq. 10)."""
    return torch.exp(-2 * (away / window).square())
