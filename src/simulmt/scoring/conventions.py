"""Named conventions, by which published scorers and papers count quality and latency.

AL of one paper is not AL of another: the unit, the length that sets the pace and the tokens of BLEU
differ. A convention names one such choice, and each of its figures carries a signature.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import NamedTuple

from simulmt import latency
from simulmt.decoding.writing import Writing
from simulmt.errors import UserError
from simulmt.latency import Metric
from simulmt.scoring.degeneracy import FIGURES, OMNISTEVAL

UNITS = ("word", "subword")


class Bleu(NamedTuple):
    """The tokeniser of sacreBLEU, and True if case is ignored."""

    tokenize: str = "13a"
    lowercase: bool = False

    def of(self, writing: Writing) -> "Bleu":
        """Return the same with the tokeniser of a writing; `none` stays, or becomes `char`."""
        if self.tokenize == "none":
            return self._replace(tokenize="char" if writing.target else "none")
        return self._replace(tokenize=writing.bleu)


CASED = Bleu()
_MECAB = ("MeCab", "ipadic")


def check_bleu(writing: Writing) -> None:
    """Check that sacreBLEU can split the target.

    Raises:
        UserError: its tokeniser needs a package that is not installed.
    """
    if writing.bleu == "ja-mecab" and not all(map(find_spec, _MECAB)):
        remedy = "or set bleu=char (in training: data.bleu=char)"
        raise UserError(f'bleu=ja-mecab needs `pip install "simulmt[ja]"`; {remedy}')


@dataclass(frozen=True)
class Convention:
    """A way to count quality and latency.

    Attributes:
        units: The units of latency, `word` or `subword`; the usual unit comes first.
        metrics: The latencies by their names in the scores, in the order of a table.
        clipped: True if delays are clipped to the length of the source.
        bleu: The kind of BLEU.
        chrf: True to count chrF, too.
        degeneracy: True to count `simulmt.scoring.degeneracy`, too.
        scorer: The scorer and its version, for signatures; empty if versions agree.
        soft: For documents, True to re-segment by `soft`, False by `levenshtein`.
        streaming: For documents, True for the means of `streaming_latency`.
    """

    units: tuple[str, ...]
    metrics: Mapping[str, Metric]
    clipped: bool
    bleu: Bleu = CASED
    chrf: bool = False
    degeneracy: bool = False
    scorer: str = ""
    soft: bool = False
    streaming: bool = False

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of all figures, in the order of a table."""
        further = FIGURES if self.degeneracy else ()
        return ("BLEU", *(("chrF",) if self.chrf else ()), *self.metrics, *further)

    def fields(self, unit: str, writing: Writing) -> tuple[str, ...]:
        """Return the fields of a signature for the unit and the delays."""
        clipping = () if self.clipped else ("clip:no",)
        return (*writing.fields(unit), *clipping, *((self.scorer,) if self.scorer else ()))


_AP, _AL, _AL_REF, _LAAL, _DAL, _CW = latency.METRICS.values()
_AP_REF, _CW_SRC = _AP._replace(length="ref"), _CW._replace(length="src")
_YAAL = Metric("YAAL", latency.yet_another_average_lagging, "max")
_ATD = Metric("ATD", latency.average_token_delay, "")


def _named(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


_WORD, _SUBWORD = UNITS
CONVENTIONS: Mapping[str, Convention] = {
    "paper": Convention(UNITS, latency.COUNTED, clipped=True, chrf=True),
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


_long = (_YAAL._replace(ends=True), _AL_REF, _LAAL, _AP_REF, _DAL)
_LONG = [metric._replace(name=f"Long{metric.name}") for metric in _long]
_of_words = partial(Convention, (_WORD,), clipped=False)
STREAM_CONVENTIONS: Mapping[str, Convention] = {
    "streaming": _of_words(_named(_AP, _AL, _DAL), streaming=True),
    "longyaal": _of_words(_named(*_LONG), scorer=f"omnisteval:{OMNISTEVAL}", soft=True),
    "streamlaal": _of_words(_named(_LAAL._replace(name="StreamLAAL"))),
}
"""Of documents, by name. StreamLAAL's authors re-segment with mweralign, not with our segmenter."""
