"""The options of `report.py` (`conf/report.yaml`)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from simulmt.errors import UserError
from simulmt.options import Config, Finite, Natural, Positive, construct, convert, pick
from simulmt.scoring.conventions import ADDED, CONVENTIONS

FORMATS = ("png", "svg", "pdf")
_WIDEST = 4.0  # points of the font for each inch of a picture
LATENCIES = ("DAL", "AL", "AP", "LAAL")
_LISTS = ("latency", "published", "line", "formats", "compare_at")
"""Options that may be one value instead of a list."""


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
    others: Any
    line: Any
    labels: Path | None
    formats: Any
    width: Annotated[float, Ge(2), Le(30)]  # inches
    font_size: Annotated[float, Ge(4), Le(40)]  # points
    resamples: Annotated[int, Ge(40), Le(10_000)]
    compare_at: list[Positive]
    select: Literal["dal", "al", "ap", "laal"] | None
    ranges: Any
    samples: Natural
    test: str | None
    plugins: list[str]

    def __post_init__(self) -> None:
        if self.quality is not None:
            _check_range("quality", self.quality, "[95,101]")
            if self.quality[0] == self.quality[1]:
                raise UserError(f"quality is {self.quality}: a picture needs two different numbers")
        for name in self.formats or [None]:
            pick(dict.fromkeys(FORMATS), name, "formats")
        if self.font_size > _WIDEST * self.width:
            raise UserError(
                f"font_size is {self.font_size:g} with width={self.width:g}: the picture has room "
                f"for at most {_WIDEST * self.width:g} points; give a smaller font_size, or "
                f"width={self.font_size / _WIDEST:g}"
            )
        convention = pick(CONVENTIONS, self.convention, "convention")
        paper = self.convention == "paper"
        where = "" if paper else f"convention={self.convention}: "
        known = (*LATENCIES, *ADDED) if paper else tuple(convention.metrics)
        for latency in self.latency or [None]:
            pick(dict.fromkeys(known), latency, f"{where}latency")
        pick(dict.fromkeys(convention.units), self.unit, f"{where}unit")
        if self.select is not None and not paper:
            raise UserError(
                f"select={self.select} with convention={self.convention}: the development set is "
                "scored by paper alone; choose convention=paper, or select=null"
            )
        if self.select is not None and not (isinstance(self.ranges, list) and self.ranges):
            raise UserError("select needs ranges of latency, such as ranges=[[3,4],[4,5]]")
        for limits in self.ranges if self.select else ():
            _check_range("ranges", limits, "[3,4]")


def read_choices(options: Config) -> Choices:
    """Return the options, with the defaults of `to` and `unit`.

    Raises:
        UserError: an option is unknown, missing or out of range.
    """
    units = pick(CONVENTIONS, options.get("convention"), "convention").units
    defaults = {"to": options.get("runs"), "unit": units[0]}
    filled = {**options, **{k: v for k, v in defaults.items() if options.get(k) is None}}
    filled |= {key: _listed(options[key]) for key in _LISTS if key in options}
    if isinstance(select := options.get("select"), str):
        filled["select"] = select.lower()
    return construct(Choices, filled, "")


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _check_range(name: str, value: Any, example: str) -> None:
    numbers = isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))
    if not numbers or value[0] > value[1]:
        raise UserError(f"{name} has {value!r}; give [least,most], such as {example}")


def _is_number(value: Any) -> bool:
    try:
        convert(value, Finite)
    except ValueError:
        return False
    return True
