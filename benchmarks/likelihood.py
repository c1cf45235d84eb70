"""The likelihood computed in chunks against the likelihood from all logits: time and memory.

    python benchmarks/likelihood.py [--repeats 7]

Times forward and backward of the smoothed loss alone, for several vocabularies and widths, on one
CPU thread. Memory is that of a whole training step of `soft`, without parameters and Adam's state.
"""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import torch
from frame import Result, alone, in_turns, one_thread, ratios, summed_up
from steps import batch, model, peak_bytes, settings, step, vocabulary
from torch import Tensor

from simulmt.models.projection import Projection
from simulmt.objective import latency_augmented
from simulmt.objective.likelihood import TokenLosses, token_losses

SIZES = {(4000, 128): 4000, (800, 128): 4000, (16000, 512): 1000, (32000, 512): 1000}
"""Target tokens, for each number of subwords and width."""
MODELS = ("transformer", "transformer_multi30k", "transformer_base")
SUBWORDS, TOKENS, LENGTH = 32000, 4000, 25
TIME, MEMORY, RECOMPUTED = 1.1, 0.5, 0.45
"""Limits relative to the loss from all logits."""
SMOOTHING = 0.1


def from_all_logits(
    states: Tensor, output: Projection, target: Tensor, mask: Tensor
) -> TokenLosses:
    """Like `token_losses`, with tensors of tokens times subwords; the tests also use it."""
    log_p = output(states).log_softmax(-1)
    nll = -log_p.gather(-1, target[..., None])[..., 0]
    return TokenLosses(nll * mask, -log_p.mean(-1) * mask)


def contestants(subwords: int, width: int, tokens: int) -> dict[str, Callable[[], object]]:
    """Forward and backward of both, on the same tokens."""
    states = torch.randn(1, tokens, width).requires_grad_()
    weight = (torch.randn(subwords, width) * width**-0.5).requires_grad_()
    target = torch.randint(subwords, (1, tokens))
    mask = torch.ones_like(target, dtype=torch.bool)

    def both(losses: Callable[..., TokenLosses]) -> Callable[[], object]:
        def run() -> None:
            states.grad = weight.grad = None
            found = losses(states, Projection(weight), target, mask)
            torch.autograd.backward(found.smoothed(SMOOTHING).sum())

        return run

    return {"ours": both(token_losses), "all": both(from_all_logits)}


def peaks(name: str, subwords: int = SUBWORDS, tokens: int = TOKENS) -> tuple[int, int, int]:
    """Bytes of a step of a model: ours, with all logits, and ours with recomputed layers."""
    config = settings(name, "verbfinal", "soft")
    config["data"]["subwords"]["size"] = subwords
    network = model(config)
    run = step(network, config, batch(tokens, LENGTH, vocabulary(config)))
    run()
    ours = peak_bytes(run)
    with patch.object(latency_augmented, "token_losses", from_all_logits):
        other = peak_bytes(run)
    network.recompute_layers()
    return ours, other, peak_bytes(run)


def measure(repeats: int) -> list[Result]:
    one_thread()
    results = []
    for (subwords, width), tokens in SIZES.items():
        times = in_turns(contestants(subwords, width, tokens), repeats)
        what = f"{subwords:,} subwords, width {width}: times as long as with all logits"
        against = ratios(times["ours"], times["all"])
        results.append(summed_up("likelihood", what, against, most=TIME))
    for name in MODELS:
        ours, other, again = peaks(name)
        size = f"{name}, a step of {TOKENS:,} tokens, {SUBWORDS:,} subwords"
        what = f"{size}: times that with all logits"
        results.append(summed_up("peak memory", what, [ours / other], most=MEMORY))
        what = f"{size}, trainer.recompute=true: times that with all logits"
        results.append(summed_up("peak memory", what, [again / other], most=RECOMPUTED))
    return results


if __name__ == "__main__":
    alone(measure, __doc__)
