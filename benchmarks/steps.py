"""Training steps to be timed: model, objective and Adam on an artificial batch."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from frame import configuration

from simulmt.attention import Moment
from simulmt.data.encoded import EncodedSplit
from simulmt.models.model import Model
from simulmt.models.vocabulary import Vocabulary
from simulmt.objective.batch import Batch
from simulmt.parts.builders import build_mechanism, build_model, build_objective

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # silences the profiler
Step = Callable[[], object]
AFTER_WARM_UP = 10**6  # an update at which the latency has its full weight


def settings(size: str, data: str, mechanism: str) -> dict[str, Any]:
    """The options of a run; only the size of the vocabulary comes from the data."""
    root = [] if data == "verbfinal" else ["data.root=."]
    words = [f"model={size}", f"data={data}", *root, f"mechanism={mechanism}"]
    weighed = configuration(*words)["objective"]["name"] == "latency_augmented"
    return configuration(*words, *["lambda=0.2"] * weighed)


def vocabulary(config: dict[str, Any]) -> Vocabulary:
    return Vocabulary(int(config["data"]["subwords"]["size"]))


def model(config: dict[str, Any]) -> Model:
    torch.manual_seed(0)
    return build_model(config["model"], build_mechanism(config["mechanism"]), vocabulary(config))


def batch(tokens: int, length: int, words: Vocabulary, device: str = "cpu") -> Batch:
    """A batch of about `tokens` target tokens, in sentences up to 10% shorter than `length`."""
    count = max(1, round(tokens / length))
    source, target = (_rows(count, length, words) for _ in range(2))
    given = EncodedSplit.of(source, target, words).batch(range(count))
    return given.each(lambda part: part.to(device))


def _rows(count: int, length: int, words: Vocabulary) -> list[list[int]]:
    rows = torch.randint(words.eos + 1, words.size, (count, length)).tolist()
    lengths = torch.randint(length - length // 10, length + 1, (count, 1))[:, 0].tolist()
    lengths[0] = length
    return [row[: n - 1] for row, n in zip(rows, lengths, strict=True)]


def step(network: Model, config: dict[str, Any], given: Batch) -> Step:
    """Forward, backward, Adam."""
    objective = build_objective(config["objective"])
    draw = torch.rand(len(given.source), device=given.source.device)
    lengths = given.target_mask.sum(-1)
    moment = Moment(AFTER_WARM_UP, AFTER_WARM_UP, draw, lengths)
    adam = torch.optim.Adam(network.parameters(), lr=1e-4, fused=True)
    network.train()

    def run() -> None:
        loss = objective(network, given, moment)
        torch.autograd.backward(loss.total / loss.tokens)
        adam.step()
        adam.zero_grad()

    return run


def peak_bytes(run: Step) -> int:
    """The peak of torch's memory during a step, above the memory in use before.

    The step has been run before, so that parameters and Adam's state already exist. Only
    activations, gradients and scratch tensors are counted.
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
