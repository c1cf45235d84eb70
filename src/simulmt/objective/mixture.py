"""The likelihood of tokens under two views of the source and under their mixture (SM2).

    L = sum_v -w_v log q_v + strength * sum_v -w_v log m_v,    m = c p + (1 - c) q

for each token, with p from a prefix of the source, q from all of it, the confidence c, and the
smoothed target w. With r = c p / m, the share of the prefix in m, and R = sum_v w_v r_v, the
gradients by the logits are

    of p    strength (R p - w r)
    of q    q - w + strength ((1 - R) q - w (1 - r))
    of c    strength (c - R)

The forward pass computes them chunk by chunk, with the logits of either view once, and keeps what
they give for states and weights.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from simulmt.models.projection import Projection
from simulmt.objective.likelihood import added, as_autocast, chunks, softmax_
from simulmt.ops.precision import wide


class Views(NamedTuple):
    """What both views say of N tokens."""

    prefix: Float[Tensor, "N E"]
    """The decoder's last states on a prefix of the source."""
    whole: Float[Tensor, "N E"]
    """Its last states on all of it."""
    confidence: Float[Tensor, "N"]
    """The logits of c."""
    target: Int[Tensor, "N"]


class Mix(NamedTuple):
    """How the loss puts them together."""

    smoothing: float
    """The share of each target that is spread over the vocabulary."""
    strength: float
    """The weight of the mixture's loss."""
    detach: bool
    """True if the mixture's loss has no gradient for the view of the whole source."""


class MixtureLosses(NamedTuple):
    """Sums over all tokens."""

    total: Float[Tensor, ""]
    """L, differentiable once by states, confidence and the output layer."""
    nll: Float[Tensor, ""]
    """-log q of the targets."""
    mixture: Float[Tensor, ""]
    """The smoothed loss of the mixture."""


def mixture_losses(views: Views, output: Projection, mix: Mix) -> MixtureLosses:
    """The losses of some tokens. Autocast lowers the precision of the products alone."""
    prefix, whole, weight, bias = as_autocast(views.prefix, views.whole, *output)
    with torch.autocast(whole.device.type, enabled=False):
        c = wide(views.confidence)
        found = _Mixture.apply(prefix, whole, c, weight, bias, views.target, mix)  # type: ignore[no-untyped-call]
        return MixtureLosses(*found)


class _Mixture(torch.autograd.Function):
    """The losses, with the gradients of the first in the forward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        prefix: Float[Tensor, "N E"],
        whole: Float[Tensor, "N E"],
        confidence: Float[Tensor, "N"],
        weight: Float[Tensor, "V E"],
        bias: Float[Tensor, "V"] | None,
        target: Int[Tensor, "N"],
        mix: Mix,
    ) -> tuple[Float[Tensor, ""], ...]:
        output, sums = Projection(weight, bias), None
        by_prefix, by_whole = torch.empty_like(prefix), torch.empty_like(whole)
        by_confidence = torch.empty_like(confidence)
        losses = confidence.new_zeros(3)
        for rows in chunks(whole, weight):
            z, y = wide(output(prefix[rows])), wide(output(whole[rows]))
            given = confidence[rows, None], target[rows, None]
            found, by_confidence[rows] = _gradients_(z, y, *given, mix)
            losses += found
            for states, by, into in ((prefix, z, by_prefix), (whole, y, by_whole)):
                into[rows] = by.to(weight.dtype) @ weight
                sums = added(sums, by, states[rows], bias is not None)
        assert sums is not None, "there is at least one chunk"
        ctx.found = by_prefix, by_whole, by_confidence, sums
        total, nll, mixture = losses.unbind()
        ctx.mark_non_differentiable(nll, mixture)
        return total, nll, mixture

    @staticmethod
    def backward(ctx: Any, grad: Float[Tensor, ""], *_: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("mixture losses have no second derivatives: leave out create_graph")
        by_prefix, by_whole, by_confidence, sums = ctx.found
        scaled = ((x * grad).to(x.dtype) for x in (by_prefix, by_whole, by_confidence))
        output = (None if x is None else (x * grad).to(by_whole.dtype) for x in sums)
        return *scaled, *output, None, None


def _gradients_(
    z: Float[Tensor, "n V"],
    y: Float[Tensor, "n V"],
    confidence: Float[Tensor, "n 1"],
    target: Int[Tensor, "n 1"],
    mix: Mix,
) -> tuple[Float[Tensor, "3"], Float[Tensor, "n"]]:
    """Total, nll and mixture of a chunk, and the total's gradient with respect to `confidence`.

    The gradients with respect to `z` and `y`, the logits of p and q, overwrite them.
    """
    even, own = mix.smoothing / z.shape[1], 1 - mix.smoothing  # w = even, + own at the target
    chosen, mean = y.gather(1, target)[:, 0], y.mean(1)
    log_z, q = softmax_(y)
    p, c = softmax_(z)[1], confidence.sigmoid()
    m = torch.lerp(q, p, c).clamp_(min=torch.finfo(q.dtype).tiny)
    mixture = -own * m.gather(1, target)[:, 0].log()
    if even:
        mixture -= even * m.log().sum(1)
    r = m.reciprocal_().mul_(p).mul_(c)
    hit = r.gather(1, target)
    R = own * hit + even * r.sum(1, keepdim=True)
    k = mix.strength
    p.mul_(k * R).sub_(r, alpha=k * even).scatter_add_(1, target, -k * own * hit)
    if mix.detach:
        q.sub_(even).scatter_add_(1, target, torch.full_like(hit, -own))
    else:
        q.mul_(1 + k * (1 - R)).sub_(even * (1 + k)).add_(r, alpha=k * even)
        q.scatter_add_(1, target, -own * (1 + k * (1 - hit)))
    nll, mixed = (log_z - chosen).sum(), mixture.sum()
    whole = own * nll + mix.smoothing * (log_z - mean).sum()
    losses = torch.stack([whole + k * mixed, nll, mixed])
    return losses, (k * (c - R))[:, 0]
