"""The likelihood of each target token, without the logits of all tokens at once.

    nll_i = log Z_i - z_i,y_i        uniform_i = log Z_i - 1/V sum_v z_iv

with the logits z_i = W h_i + b and log Z_i = log sum_v exp z_iv. The logits are computed for one
chunk of tokens after another, so no tensor of tokens times subwords is ever held.

The gradients of log Z_i are p_i W by h_i and p_i h_i' by W, with p_i = softmax z_i. The first is
kept for each token. The second is summed in the forward pass if all tokens have the same weight in
the loss, and scaled in the backward pass. If the weights differ, the backward pass computes the
logits of each chunk again.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt.models.projection import Projection
from simulmt.ops.precision import wider

_TOKENS = 512
"""Tokens in a chunk on a CPU, and the fewest on a GPU; the last chunk may be smaller. Each chunk
reads the weight again, which takes as long as the arithmetic of about a hundred tokens."""
_LOGITS = 1 << 24
"""Logits in a chunk on a GPU, at least: 64 MiB. Fewer would not keep it busy."""


class TokenLosses(NamedTuple):
    """Losses of each target token in nats, 0 at padding; in float64 or float32."""

    nll: Float[Tensor, "B T"]
    """-log p(y_i)."""
    uniform: Float[Tensor, "B T"]
    """-1/V sum_v log p(v): the cross-entropy with the uniform distribution."""

    def smoothed(self, smoothing: float) -> Float[Tensor, "B T"]:
        """The loss with label smoothing: a share `smoothing` of the target is uniform."""
        return torch.lerp(self.nll, self.uniform, smoothing)


def token_losses(
    states: Float[Tensor, "B T E"],
    output: Projection,
    target: Int[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    equal: bool = True,
) -> TokenLosses:
    """The losses of the target tokens, differentiable once by states, weight and bias.

    Autocast lowers the precision of the products alone.

    Args:
        states: the decoder's last states.
        output: the output layer.
        target: the tokens to be predicted.
        mask: True for real tokens; nothing is computed for padding.
        equal: True if all tokens are expected to have the same weight in the loss, which is faster.
    """
    rows = mask.flatten().nonzero()[:, 0]
    kept = states.flatten(0, 1).index_select(0, rows)
    tokens = target.flatten().index_select(0, rows)
    kept, weight, bias = as_autocast(kept, *output)
    with torch.autocast(states.device.type, enabled=False):
        learns = torch.is_grad_enabled()
        losses = _Losses.apply(kept, weight, bias, tokens, learns, equal)  # type: ignore[no-untyped-call]
    padded = (loss.new_zeros(mask.numel()).index_copy(0, rows, loss) for loss in losses)
    return TokenLosses(*(loss.view(mask.shape) for loss in padded))


def as_autocast(*tensors: Tensor | None) -> tuple[Any, ...]:
    """The tensors in the precision that autocast asks of products, if it is on."""
    device = next(x.device.type for x in tensors if x is not None)
    if not torch.is_autocast_enabled(device):
        return tensors
    precision = torch.get_autocast_dtype(device)
    return tuple(None if x is None else x.to(precision) for x in tensors)


class _Losses(torch.autograd.Function):
    """nll and uniform of N tokens."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Float[Tensor, "N E"],
        weight: Float[Tensor, "V E"],
        bias: Float[Tensor, "V"] | None,
        target: Int[Tensor, "N"],
        learns: bool,
        equal: bool,
    ) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
        wide = wider(states.dtype)
        log_z, chosen = (states.new_empty(len(states), dtype=wide) for _ in range(2))
        by_state = torch.empty_like(states) if learns else None
        sums: Sums | None = None
        for rows in chunks(states, weight):
            z = Projection(weight, bias)(states[rows]).to(wide)
            chosen[rows] = z.gather(1, target[rows, None])[:, 0]
            log_z[rows], p = softmax_(z)
            if by_state is not None:
                by_state[rows] = p.to(weight.dtype) @ weight
            if learns and equal:
                sums = added(sums, p, states[rows], bias is not None)
        average = weight.mean(0, dtype=wide)
        ctx.save_for_backward(states, weight, bias, target, log_z, by_state, average)
        ctx.sums = sums
        mean = states.to(wide) @ average
        mean = mean if bias is None else mean + bias.mean(dtype=wide)
        return log_z - chosen, log_z - mean

    @staticmethod
    def backward(
        ctx: Any, nll: Float[Tensor, "N"], uniform: Float[Tensor, "N"]
    ) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("token losses have no second derivatives: leave out create_graph")
        states, weight, bias, target, log_z, by_state, average = ctx.saved_tensors
        given = nll + uniform  # the gradient of log Z
        sums, ctx.sums = ctx.sums, None  # a second backward pass has to sum up again
        if sums is None or not (given == given[:1]).all():
            sums = _weighed(states, Projection(weight, bias), log_z, given)
        else:
            sums.scale(given[:1].sum())  # 0 without tokens
        wide = states.to(log_z.dtype)
        by_state = by_state * given[:, None] - nll[:, None] * weight[target]
        by_state -= uniform[:, None] * average
        sums.weight.index_add_(0, target, nll[:, None] * wide, alpha=-1)
        sums.weight.sub_(uniform @ wide / len(weight))
        if sums.bias is not None:
            sums.bias.index_add_(0, target, nll, alpha=-1)
            sums.bias.sub_(uniform.sum() / len(weight))
        by_bias = None if sums.bias is None else sums.bias.to(weight.dtype)
        return by_state.to(states.dtype), sums.weight.to(weight.dtype), by_bias, None, None, None


class Sums(NamedTuple):
    """Sums over tokens of the gradients of log Z by weight and bias."""

    weight: Float[Tensor, "V E"]
    bias: Float[Tensor, "V"] | None

    def scale(self, factor: Float[Tensor, ""]) -> None:
        """Multiply both, in place."""
        self.weight.mul_(factor)
        if self.bias is not None:
            self.bias.mul_(factor)


def added(
    sums: Sums | None, p: Float[Tensor, "n V"], states: Float[Tensor, "n E"], biased: bool
) -> Sums:
    """The sums plus those of another chunk; None stands for empty sums."""
    if sums is None:
        product = p.t().to(states.dtype) @ states
        return Sums(product.to(p.dtype), p.sum(0) if biased else None)
    if sums.bias is not None:
        sums.bias.add_(p.sum(0))
    if states.dtype == p.dtype:
        sums.weight.addmm_(p.t(), states)
    else:
        sums.weight.add_(p.t().to(states.dtype) @ states)
    return sums


def _weighed(
    states: Float[Tensor, "N E"],
    output: Projection,
    log_z: Float[Tensor, "N"],
    given: Float[Tensor, "N"],
) -> Sums:
    """The sums over tokens of different weights, from logits that are computed again."""
    sums: Sums | None = None
    for rows in chunks(states, output.weight):
        z = output(states[rows]).to(log_z.dtype)
        p = z.sub_(log_z[rows, None]).exp_().mul_(given[rows, None])
        sums = added(sums, p, states[rows], output.bias is not None)
    assert sums is not None, "there is at least one chunk"
    return sums


def softmax_(z: Float[Tensor, "n V"]) -> tuple[Float[Tensor, "n"], Float[Tensor, "n V"]]:
    """The logarithm of Z, and the softmax in the memory of `z`."""
    top = z.amax(1, keepdim=True)
    total = z.sub_(top).exp_().sum(1, keepdim=True)
    return (top + total.log())[:, 0], z.div_(total)


def chunks(states: Float[Tensor, "N E"], weight: Float[Tensor, "V E"]) -> Iterator[slice]:
    """Chunks of tokens, at least one."""
    size = _TOKENS if states.device.type == "cpu" else max(_TOKENS, _LOGITS // len(weight))
    return (slice(i, i + size) for i in range(0, max(len(states), 1), size))
