"""Named conventions: what published scorers and papers count, and how.

AL of one paper is not AL of another: the unit, the length that sets the pace and what BLEU is
counted on differ. A convention names one such choice, and each of its figures carries a signature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from simulmt import __version__, latency
from simulmt.errors import UserError


class Metric(NamedTuple):
    """A latency metric, and whose length its formula takes.

    Attributes:
        name: As papers write it.
        formula: A function of `simulmt.latency`.
        length: `hyp` (the translation), `ref` (the reference), `max` (the longer of the two),
            `src` (the source), or empty if none.
    """

    name: str
    formula: Callable[..., Tensor]
    length: str = "hyp"

    def values(
        self, delays: Tensor, source: Tensor, target: Tensor, reference: Tensor
    ) -> list[float]:
        """The metric of each sentence; NaN where it is not defined."""
        given = {"ref": [reference], "max": [reference], "src": [source]}
        return list(self.formula(delays, source, target, *given.get(self.length, [])).tolist())

    def signature(self, *fields: str) -> str:
        """As sacreBLEU signs a score: `AL|g:ref|u:word|eos:no|v:0.1.0`."""
        length = [f"g:{self.length}"] if self.length else []
        return "|".join([self.name, *length, *fields, "eos:no", f"v:{__version__}"])


_AP = Metric("AP", latency.average_proportion)
_AL = Metric("AL", latency.average_lagging)
_LAAL = Metric("LAAL", latency.length_adaptive_average_lagging, "max")
_DAL = Metric("DAL", latency.differentiable_average_lagging)
_CW = Metric("CW", latency.consecutive_wait, "")
_AP_REF, _AL_REF, _CW_SRC = (
    _AP._replace(length="ref"),
    _AL._replace(length="ref"),
    _CW._replace(length="src"),
)
_YAAL = Metric("YAAL", latency.yet_another_average_lagging, "max")
_ATD = Metric("ATD", latency.average_token_delay, "")

METRICS = {"AP": _AP, "AL": _AL, "AL_ref": _AL_REF, "LAAL": _LAAL, "DAL": _DAL, "CW": _CW}
"""What is counted in words and in subwords alike, by the name it has in the scores."""


class Bleu(NamedTuple):
    """sacreBLEU's tokeniser, and whether case is ignored."""

    tokenize: str = "13a"
    lowercase: bool = False


CASED = Bleu()


@dataclass(frozen=True)
class Convention:
    """What someone counts, and how.

    Attributes:
        unit: `word` or `subword`.
        metrics: Latencies, in the order of a table.
        clipped: Whether delays are clipped to the length of the source.
        bleu: The kind of BLEU.
        chrf: Whether chrF is counted, too.
    """

    unit: str
    metrics: tuple[Metric, ...]
    clipped: bool
    bleu: Bleu = CASED
    chrf: bool = False

    @property
    def latencies(self) -> tuple[str, ...]:
        """The metrics' names."""
        return tuple(metric.name for metric in self.metrics)

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of all that is counted, in the order of a table."""
        return ("BLEU", *(("chrF",) if self.chrf else ()), *self.latencies)

    @property
    def fields(self) -> tuple[str, ...]:
        """What a signature says of unit and delays."""
        return (f"u:{self.unit}", *(() if self.clipped else ("clip:no",)))


CONVENTIONS: Mapping[str, Convention] = {
    "paper": Convention("word", (_AL, _DAL, _AP, _LAAL, _CW), clipped=True),
    "simuleval": Convention("word", (_AL_REF, _DAL, _AP_REF, _LAAL, _ATD), clipped=False),
    "omnisteval": Convention(
        "word", (_YAAL, _AL_REF, _LAAL, _AP_REF, _DAL), clipped=False, chrf=True
    ),
    "ictnlp": Convention(
        "subword", (_CW_SRC, _AP, _AL, _DAL), clipped=True, bleu=Bleu("none", lowercase=True)
    ),
}
"""By name. The pace is the translation's in `paper` and `ictnlp`, the reference's in the AL and AP
of `simuleval` and `omnisteval`."""


def find_convention(name: object) -> Convention:
    """The convention of a name; a UserError lists the names if there is none."""
    if name not in list(CONVENTIONS):  # whatever a configuration holds, hashable or not
        raise UserError(f"convention is {name!r}; choose one of {', '.join(CONVENTIONS)}")
    return CONVENTIONS[str(name)]
