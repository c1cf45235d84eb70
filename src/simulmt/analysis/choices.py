"""The options of `report.py` (`conf/report.yaml`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulmt.errors import UserError
from simulmt.options import Config, construct, pick
from simulmt.scoring.conventions import CONVENTIONS

LATENCIES = ("DAL", "AL", "AP", "LAAL")
_LEAST = {"resamples": 40, "samples": 0, "tolerance": 0}  # intervals cut off 1/40 at either end


@dataclass(frozen=True)
class Choices:
    """Checked options; `conf/report.yaml` explains each of them.

    Raises:
        UserError: an option is out of range.
    """

    runs: Path
    to: Path
    convention: str
    latency: Any
    quality: Any
    unit: Any
    training: bool
    published: Any
    resamples: int
    tolerance: float
    select: Any
    ranges: Any
    samples: int

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if not least <= getattr(self, name) < math.inf:
                raise UserError(
                    f"{name} is {getattr(self, name)}; choose a number, at least {least}"
                )
        if self.quality is not None:
            _check_range("quality", self.quality, "[95,101]")
            if self.quality[0] == self.quality[1]:
                raise UserError(f"quality is {self.quality}: a picture needs two different numbers")
        convention = pick(CONVENTIONS, self.convention, "convention")
        paper = self.convention == "paper"
        where = "" if paper else f" with convention={self.convention}"
        known = LATENCIES if paper else tuple(convention.metrics)
        for latency in self.latency or [None]:
            _check_known("latency", latency, known, where)
        _check_known("unit", self.unit, convention.units, where)
        if self.select is not None:
            self._check_selection()

    def _check_selection(self) -> None:
        names = [name.lower() for name in LATENCIES]
        if str(self.select).lower() not in names:
            raise UserError(f"select is {self.select!r}; choose one of {', '.join(names)}, or null")
        if self.convention != "paper":
            raise UserError(
                f"select={self.select} with convention={self.convention}: the development set is "
                "scored by paper alone; choose convention=paper, or select=null"
            )
        if not isinstance(self.ranges, list) or not self.ranges:
            raise UserError("select needs ranges of latency, such as ranges=[[3,4],[4,5]]")
        for limits in self.ranges:
            _check_range("ranges", limits, "[3,4]")


def read_choices(options: Config) -> Choices:
    """Return the options, with the defaults of `to` and `unit`.

    Raises:
        UserError: an option is unknown, missing or out of range.
    """
    units = pick(CONVENTIONS, options.get("convention"), "convention").units
    defaults = {"to": options.get("runs"), "unit": units[0]}
    filled = {**options, **{k: v for k, v in defaults.items() if options.get(k) is None}}
    filled |= {key: Path(str(filled[key])) for key in ("runs", "to") if filled.get(key)}
    filled |= {key: _listed(options[key]) for key in ("latency", "published") if key in options}
    return construct(Choices, filled, "report")


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _check_known(name: str, value: Any, known: tuple[str, ...], where: str = "") -> None:
    if value not in known:
        raise UserError(f"{name} is {value!r}{where}; choose one of {', '.join(known)}")


def _check_range(name: str, value: Any, example: str) -> None:
    numbers = isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))
    if not numbers or value[0] > value[1]:
        raise UserError(f"{name} has {value!r}; give [least,most], such as {example}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
