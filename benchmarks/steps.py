"""Training steps to be timed: model, objective and Adam on a batch that is made up."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from frame import configuration
from torch import Tensor, nn

from simulmt.data.batches import Batch
from simulmt.data.subwords import EOS, PAD
from simulmt.models.model import Model, Translation
from simulmt.objective import Objective
from simulmt.parts import build_mechanism, build_model

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler says when it starts and stops
Step = Callable[[], object]
AFTER_WARM_UP = 10**6  # an update at which the latency weighs in full


def settings(size: str, data: str, mechanism: str) -> dict[str, Any]:
    """The options of a run; only the size of the vocabulary is taken of the data."""
    root = [] if data == "verbfinal" else ["data.root=."]
    return configuration(
        f"model={size}", f"data={data}", *root, f"mechanism={mechanism}", "lambda=0.2"
    )


def vocabulary(config: dict[str, Any]) -> int:
    return int(config["data"]["subwords"]["size"])


def model(config: dict[str, Any]) -> Model:
    torch.manual_seed(0)
    return build_model(config, build_mechanism(config), vocabulary(config))


def batch(tokens: int, length: int, size: int, device: str = "cpu") -> Batch:
    """About so many target tokens, in sentences up to 10% shorter than `length`, EOS included."""
    count = max(1, round(tokens / length))
    source, target = (_rows(count, length, size) for _ in range(2))
    return Batch(*(x.to(device) for x in (source, target, torch.arange(count))))


def _rows(count: int, length: int, size: int) -> Tensor:
    rows = torch.randint(EOS + 1, size, (count, length))
    ends = torch.randint(length - length // 10, length + 1, (count, 1)) - 1
    ends[0] = length - 1
    places = torch.arange(length)
    return rows.masked_fill(places == ends, EOS).masked_fill(places > ends, PAD)


def step(network: nn.Module, config: dict[str, Any], given: Batch) -> Step:
    """Forward, backward, Adam; `network` takes source, its mask and the target as input."""
    objective = Objective(**config["objective"])
    adam = torch.optim.Adam(network.parameters(), lr=1e-4, foreach=True)
    network.train()

    def run() -> None:
        out: Translation = network(given.source, given.source_mask, given.target_input)
        masks = given.source_mask, given.target_mask
        loss = objective(out.logits, out.alphas, given.target, *masks, AFTER_WARM_UP)
        torch.autograd.backward(loss.total / loss.tokens)
        adam.step()
        adam.zero_grad()

    return run


def peak_bytes(run: Step) -> int:
    """The most that torch holds during a step above what it held before.

    Of a step that has been run before, so that parameters and Adam's state are there: what is
    counted is activations, gradients and scratch tensors.
    """
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as watched:
        run()
    held = most = 0
    result = watched.profiler.kineto_results
    events = [event for event in result.events() if event.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most
