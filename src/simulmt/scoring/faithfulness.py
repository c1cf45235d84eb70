r"""How faithful a translation is to the source words that had been read.

`linked` has, for each target word of each sentence, the source words :math:`A_t` that the word is
linked to, from 1, as in `Split.links`. The delay :math:`g_t` is the number of source words that had
been read when target word t was written, from 1. Every figure is a percentage of words of the whole
corpus; it is None without a word to count.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from simulmt import __version__
from simulmt.decoding.writing import WORDS, Writing
from simulmt.scoring.scores import Figures, Score

KS = (1, 3, 5, 7, 9)
"""The k of anticipation rates in tables (Chen et al. 2021)."""
Linked: TypeAlias = Iterable[Sequence[Collection[int]]]
"""The source words of each target word of each sentence, from 1."""
Delays: TypeAlias = Iterable[Sequence[int]]
"""The delays of the target words of each sentence."""
Strength: TypeAlias = Literal["possible", "sure"]
Several: TypeAlias = Literal["max", "min"]


@dataclass(frozen=True)
class Counted:
    """Which links and which words a figure counts; the fields of its signature.

    Attributes:
        links: Where the links come from: `data`, `file`, or the name of an aligner.
        strength: `possible` for all links, `sure` to leave out those that are only possible.
        several: Which of several linked source words decides: the last, `max`, or the first, `min`.
        of: `output`, or `reference` for a model that is forced to write it.
        writing: What a word is.
    """

    links: str
    strength: Strength = "possible"
    several: Several = "max"
    of: Literal["output", "reference"] = "output"
    writing: Writing = WORDS

    def mean(self, name: str, values: Sequence[float], *fields: str) -> Score:
        """Return the mean of some values in percent, with its signature."""
        about = f"a:{self.links}", f"l:{self.strength}", *fields, f"of:{self.of}"
        value = 100 * math.fsum(values) / len(values) if values else None
        end = *self.writing.fields("word"), f"v:{__version__}"
        return Score(value, "|".join([name, *about, *end]))

    def deciding(self, linked: Linked, delays: Delays) -> Iterator[tuple[int, int]]:
        """Yield the deciding source word and the delay of each linked target word."""
        decide = max if self.several == "max" else min
        for sentence, own in zip(linked, delays, strict=True):
            for sources, delay in zip(sentence, own, strict=True):
                if sources:
                    yield decide(sources), delay


def anticipation_rate(linked: Linked, k: int, counted: Counted) -> Score:
    r"""Return the k-anticipation rate: the share of words that wait-k would have to guess.

    .. math:: AR_k = \frac{1}{|y|} \sum_{t=1}^{|y|} \mathbb{1} [ \exists s \in A_t : s \ge t + k ]

    Chen et al. (2021), "Improving Simultaneous Translation by Incorporating Pseudo-References with
    Fewer Reorderings", over all target words.
    """
    places = (place for sentence in linked for place in enumerate(sentence, 1))
    return counted.mean(f"AR{k}", [max(sources, default=0) >= t + k for t, sources in places])


def hallucination_rate(linked: Linked, counted: Counted) -> Score:
    r"""Return the share of words without a link (Chen et al. 2021).

    .. math:: HR = \frac{1}{|y|} \sum_{t=1}^{|y|} \mathbb{1} [ A_t = \emptyset ]
    """
    return counted.mean("HR", [not sources for sentence in linked for sources in sentence])


def sufficiency(linked: Linked, delays: Delays, counted: Counted) -> Score:
    r"""Return the share of linked words whose source word had been read.

    .. math:: SUF = \frac{1}{|T|} \sum_{t \in T} \mathbb{1} [ a_t \le g_t ], \qquad
        T = \{ t : A_t \ne \emptyset \}

    with the deciding source word :math:`a_t`, :math:`\max A_t` or :math:`\min A_t`. Zhang and Feng
    (2022), "Modeling Dual Read/Write Paths for Simultaneous Machine Translation".
    """
    pairs = counted.deciding(linked, delays)
    return counted.mean("SUF", [a <= g for a, g in pairs], f"m:{counted.several}")


def necessity(linked: Linked, delays: Delays, counted: Counted) -> Score:
    r"""Return the share of the words read that was needed, over words with a sufficient delay.

    .. math:: NEC = \frac{1}{|T'|} \sum_{t \in T'} \frac{a_t}{g_t}, \qquad
        T' = \{ t \in T : a_t \le g_t \}

    Zhang and Feng (2022), as for `sufficiency`.
    """
    pairs = counted.deciding(linked, delays)
    return counted.mean("NEC", [a / g for a, g in pairs if a <= g], f"m:{counted.several}")


def faithfulness(
    linked: Sequence[Sequence[Collection[int]]], delays: Sequence[Sequence[int]], counted: Counted
) -> Figures:
    """Return sufficiency, necessity and hallucination rate by name."""
    return {
        "sufficiency": sufficiency(linked, delays, counted),
        "necessity": necessity(linked, delays, counted),
        "hallucination": hallucination_rate(linked, counted),
    }
