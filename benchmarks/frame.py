"""Shared by all benchmarks: contestants in turns, results with their targets, and their tables."""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from hydra import compose, initialize_config_dir
from rich.console import Console
from rich.table import Table

from simulmt.programs.plain import plain
from simulmt.training.machine import prepare_machine

ROOT = Path(__file__).resolve().parents[1]
REPEATS = 7
WARM_UP = 3


class Result(NamedTuple):
    """A measured figure and its target; a `least` or `most` of None is no limit."""

    subject: str
    what: str
    value: float
    low: float
    """Lower quartile of the repeats; `high` is the upper quartile."""
    high: float
    unit: str
    least: float | None
    most: float | None

    @property
    def met(self) -> bool:
        """True if the median is within the target; NaN is not."""
        above = self.least is None or self.value >= self.least
        return above and (self.most is None or self.value <= self.most)

    @property
    def target(self) -> str:
        """The target in words."""
        if self.least is not None and self.most is not None:
            return f"{self.least:g} to {self.most:g}"
        if self.least is not None:
            return f"≥ {self.least:g}"
        return "" if self.most is None else f"≤ {self.most:g}"

    @property
    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        spread = f"{_digits(self.low)} to {_digits(self.high)}"
        value = f"{_digits(self.value)} {self.unit}".strip()
        verdict = ("met" if self.met else "missed") if self.target else ""
        return (self.subject, self.what, value, spread, self.target, verdict)


COLUMNS = ("subject", "what", "measured", "quartiles", "target", "")
Measure = Callable[[int], list[Result]]
"""Returns the results of a subject, from a number of repeats."""


def summed_up(
    subject: str,
    what: str,
    figures: Sequence[float],
    *,
    unit: str = "x",
    least: float | None = None,
    most: float | None = None,
) -> Result:
    """Median and quartiles of the repeats."""
    several = figures if len(figures) > 1 else [*figures] * 2
    low, middle, high = statistics.quantiles(several, n=4, method="inclusive")
    return Result(subject, what, middle, low, high, unit, least, most)


def in_turns(
    contestants: Mapping[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.process_time,
    warm_up: int = WARM_UP,
) -> dict[str, list[float]]:
    """Seconds of each contestant in each round; every round begins with a different one.

    If the machine slows down for a while, all of them slow down. The first rounds, which warm up
    caches, compilers and the allocator, are left out. Processor time is the time that one thread
    takes on an idle machine.
    """
    names = [*contestants]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(repeats + warm_up):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            start = clock()
            contestants[name]()
            if turn >= warm_up:
                seconds[name].append(clock() - start)
    return seconds


def ratios(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """Round by round."""
    return [a / b for a, b in zip(over, under, strict=True)]


def configuration(*overrides: str) -> dict[str, Any]:
    """The configuration of `python train.py OVERRIDES`."""
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return plain(compose("train", [*overrides]))


def one_thread() -> None:
    """Use one thread, for measuring processor time, and manage memory as in training."""
    prepare_machine()
    torch.set_num_threads(1)
    torch.manual_seed(0)


def environment() -> dict[str, str]:
    """The environment of started programs: this working tree, one thread, no network."""
    own = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "WANDB_MODE": "offline"}
    return {**os.environ, **own}


def show(results: Sequence[Result]) -> None:
    """Print the table."""
    table = Table(title="speed against its targets")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column == "measured" else "left")
    for result in results:
        table.add_row(*result.cells, style=None if result.met else "red")
    Console(width=120).print(table)


def alone(measure: Measure, description: str | None) -> None:
    """Run a benchmark by itself, with its command line."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument(
        "--repeats", type=int, default=REPEATS, help="rounds (default: %(default)s)"
    )
    show(measure(parser.parse_args().repeats))


def _digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
