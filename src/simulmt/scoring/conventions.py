"""Named conventions, by which published scorers and papers count quality and latency.

AL of one paper is not AL of another: the unit, the length that sets the pace and the tokens of BLEU
differ. A convention names one such choice, and each of its figures carries a signature.
"""

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from simulmt import __version__, latency
from simulmt.scoring.degeneracy import FIGURES, OMNISTEVAL


class Metric(NamedTuple):
    """A latency metric, and whose length its formula takes.

    Attributes:
        name: The name that papers use.
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
        """Return the metric of each sentence; NaN where the formula does not define it."""
        lengths = {"ref": [reference], "max": [reference], "src": [source]}
        return list(self.formula(delays, source, target, *lengths.get(self.length, [])).tolist())

    def signature(self, *fields: str) -> str:
        """Return how the metric is counted, as sacreBLEU does: `AL|g:ref|u:word|eos:no|v:0.1.0`."""
        length = [f"g:{self.length}"] if self.length else []
        return "|".join([self.name, *length, *fields, "eos:no", f"v:{__version__}"])


_AP = Metric("AP", latency.average_proportion)
_AL = Metric("AL", latency.average_lagging)
_LAAL = Metric("LAAL", latency.length_adaptive_average_lagging, "max")
_DAL = Metric("DAL", latency.differentiable_average_lagging)
_CW = Metric("CW", latency.consecutive_wait, "")
_AP_REF, _AL_REF = _AP._replace(length="ref"), _AL._replace(length="ref")
_CW_SRC = _CW._replace(length="src")
_YAAL = Metric("YAAL", latency.yet_another_average_lagging, "max")
_ATD = Metric("ATD", latency.average_token_delay, "")

METRICS = {"AP": _AP, "AL": _AL, "AL_ref": _AL_REF, "LAAL": _LAAL, "DAL": _DAL, "CW": _CW}
"""The latencies of the papers, and of the oracle."""
ADDED: dict[str, Metric] = {}
"""Latencies of plugins, by names that no latency of the papers has."""
COUNTED = ChainMap(ADDED, METRICS)
"""The latencies of the convention `paper`; what is added to them is added to `ADDED`."""
UNITS = ("word", "subword")


class Bleu(NamedTuple):
    """sacreBLEU's tokeniser, and whether case is ignored."""

    tokenize: str = "13a"
    lowercase: bool = False


CASED = Bleu()


@dataclass(frozen=True)
class Convention:
    """A way to count quality and latency.

    Attributes:
        units: The units of latency, `word` or `subword`; the usual unit comes first.
        metrics: The latencies by their names in the scores, in the order of a table.
        clipped: Whether delays are clipped to the length of the source.
        bleu: The kind of BLEU.
        chrf: Whether chrF is counted, too.
        degeneracy: Whether `simulmt.scoring.degeneracy` is counted, too.
        scorer: The scorer and its version, for signatures; empty if versions agree.
    """

    units: tuple[str, ...]
    metrics: Mapping[str, Metric]
    clipped: bool
    bleu: Bleu = CASED
    chrf: bool = False
    degeneracy: bool = False
    scorer: str = ""

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of all figures, in the order of a table."""
        further = FIGURES if self.degeneracy else ()
        return ("BLEU", *(("chrF",) if self.chrf else ()), *self.metrics, *further)

    def fields(self, unit: str) -> tuple[str, ...]:
        """Return the fields of a signature for the unit and the delays."""
        clipping = () if self.clipped else ("clip:no",)
        return (f"u:{unit}", *clipping, *((self.scorer,) if self.scorer else ()))


def _named(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


_WORD, _SUBWORD = UNITS
CONVENTIONS: Mapping[str, Convention] = {
    "paper": Convention(UNITS, COUNTED, clipped=True, chrf=True),
    "simuleval": Convention((_WORD,), _named(_AL_REF, _DAL, _AP_REF, _LAAL, _ATD), clipped=False),
    "omnisteval": Convention(
        (_WORD,),
        _named(_YAAL, _AL_REF, _LAAL, _AP_REF, _DAL),
        clipped=False,
        chrf=True,
        degeneracy=True,
        scorer=f"omnisteval:{OMNISTEVAL}",
    ),
    "ictnlp": Convention(
        (_SUBWORD,), _named(_CW_SRC, _AP, _AL, _DAL), clipped=True, bleu=Bleu("none", True)
    ),
}
"""By name. The pace is the translation's in `paper` and `ictnlp`, the reference's in the AL and AP
of `simuleval` and `omnisteval`."""
