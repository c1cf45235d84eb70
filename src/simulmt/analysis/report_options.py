"""The options of `report.py` (`conf/report.yaml`)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Le, MinLen

from simulmt.errors import UserError
from simulmt.options import Config, Natural, OneOrMany, Positive, Range, construct, pick
from simulmt.scoring.conventions import CONVENTIONS

MOST_RESAMPLES = 50_000
"""The limit of `resamples`."""


@dataclass(frozen=True)
class ReportOptions:
    """Checked options; `conf/report.yaml` explains each of them.

    Raises:
        UserError: an option is out of range.
    """

    runs: Path
    to: Path
    convention: str
    metric: str
    latency: Annotated[OneOrMany[str], MinLen(1)]
    quality: Range | None
    unit: str
    published: OneOrMany[str]
    others: dict[str, Path] | None
    oracle: Path | None
    line: OneOrMany[str]
    labels: Path | None
    formats: Annotated[OneOrMany[Literal["png", "svg", "pdf"]], MinLen(1)]
    width: Annotated[float, Ge(2), Le(30)]  # inches
    font_size: Annotated[float, Ge(4), Le(40)]  # points
    resamples: Annotated[int, Ge(40), Le(MOST_RESAMPLES)]
    compare_at: OneOrMany[Positive]
    select: Literal["dal", "al", "ap", "laal"] | None
    ranges: list[Range]
    samples: Natural
    test: str | None

    def __post_init__(self) -> None:
        convention, paper = CONVENTIONS[self.convention], self.convention == "paper"
        where = "" if paper else f"convention={self.convention}: "
        for latency in self.latency:
            also = "; a plugin's needs plugins=" * paper
            pick(convention.metrics, latency, f"{where}latency", also)
        pick(dict.fromkeys(convention.units), self.unit, f"{where}unit")
        if self.published and self.metric != "BLEU":
            two = f"metric={self.metric} with published={self.published[0]}"
            raise UserError(f"{two}: published figures are BLEU; leave one of them out")
        if self.select and not paper:
            two = f"select={self.select} with convention={self.convention}"
            raise UserError(f"{two}: validation always uses convention=paper; set that")
        if bool(self.select) != bool(self.ranges):
            given = f"select={self.select} and ranges={self.ranges}"
            raise UserError(f"{given}: give both, such as select=dal ranges=[[3,4],[4,5]]")
        if self.oracle and self.unit != "word":
            two = f"oracle={self.oracle} with unit={self.unit}"
            raise UserError(f"{two}: the oracle's latency is in words; set unit=word")


def read_options(options: Config) -> ReportOptions:
    """Return the options, with the defaults of `to` and `unit`.

    Raises:
        UserError: an option is unknown, missing or out of range.
    """
    units = pick(CONVENTIONS, options.get("convention"), "convention").units
    defaults = {"to": options.get("runs"), "unit": units[0]}
    filled = {**options, **{k: v for k, v in defaults.items() if options.get(k) is None}}
    return construct(ReportOptions, filled, "")
