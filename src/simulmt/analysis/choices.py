"""The options of `report.py` (`conf/report.yaml`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulmt.errors import UserError
from simulmt.options import Config, construct
from simulmt.scoring.conventions import find_convention

LATENCIES = ("DAL", "AL", "AP", "LAAL")


@dataclass(frozen=True)
class Choices:
    """The options, checked; `conf/report.yaml` says what each is."""

    runs: str
    to: str | None
    convention: Any
    latency: Any
    quality: Any
    unit: Any
    training: Any
    published: Any
    resamples: int
    tolerance: float
    select: Any
    ranges: Any
    samples: int

    def __post_init__(self) -> None:
        if not isinstance(self.training, bool):
            raise UserError(f"training is {self.training!r}; choose true or false")
        for name, least in (("resamples", 40), ("samples", 0)):  # 1/40 is cut off at either end
            if getattr(self, name) < least:
                raise UserError(f"{name} is {getattr(self, name)}; choose at least {least}")
        if not (math.isfinite(self.tolerance) and self.tolerance >= 0):
            raise UserError(f"tolerance is {self.tolerance}; choose a latency, at least 0")
        if self.quality is not None:
            _check_range("quality", self.quality, "[95,101]")
            if self.quality[0] == self.quality[1]:
                raise UserError(f"quality is {self.quality}: a picture needs two different numbers")
        self._check_counted()
        self._check_selection()

    def _check_counted(self) -> None:
        """Refuse a latency or a unit that the convention does not count."""
        convention, paper = find_convention(self.convention), self.convention == "paper"
        choices = LATENCIES if paper else tuple(convention.metrics)
        latencies = [("latency", latency, choices) for latency in self.latencies or [None]]
        for key, value, known in [*latencies, ("unit", self.counted_in, convention.units)]:
            if value not in known:
                where = "" if paper else f" with convention={self.convention}"
                raise UserError(f"{key} is {value!r}{where}; choose one of {', '.join(known)}")

    def _check_selection(self) -> None:
        if self.select is None:
            return
        if self.selected_latency not in LATENCIES:
            names = ", ".join(name.lower() for name in LATENCIES)
            raise UserError(f"select is {self.select!r}; choose one of {names}, or null")
        if self.convention != "paper":  # validation counts nothing else
            raise UserError(
                f"select={self.select} with convention={self.convention}: the development set is "
                "scored by paper alone; choose convention=paper, or select=null"
            )
        if not isinstance(self.ranges, list) or not self.ranges:
            raise UserError("select needs ranges of latency, such as ranges=[[3,4],[4,5]]")
        for limits in self.ranges:
            _check_range("ranges", limits, "[3,4]")

    @property
    def latencies(self) -> list[Any]:
        """The latencies of the x axes, one picture each."""
        return _listed(self.latency)

    @property
    def shown(self) -> tuple[float, float] | None:
        """The least and the greatest BLEU of the pictures; None: all."""
        return None if self.quality is None else (float(self.quality[0]), float(self.quality[1]))

    @property
    def counted_in(self) -> Any:
        """The unit of latency."""
        return find_convention(self.convention).units[0] if self.unit is None else self.unit

    @property
    def selected_latency(self) -> str:
        """The latency of the ranges."""
        return str(self.select).upper()

    @property
    def files(self) -> list[str]:
        """The files of published figures."""
        return [str(name) for name in _listed(self.published)]

    @property
    def target(self) -> Path:
        """The folder to write to."""
        return Path(self.to or self.runs)


def read_choices(options: Config) -> Choices:
    """Return the options.

    Raises:
        UserError: an option is unknown, missing or out of range.
    """
    folders = {key: str(options[key]) for key in ("runs", "to") if options.get(key) is not None}
    return construct(Choices, {**options, **folders}, "report")


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _check_range(name: str, value: Any, example: str) -> None:
    numbers = isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))
    if not numbers or value[0] > value[1]:
        raise UserError(f"{name} has {value!r}; give [least,most], such as {example}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
