"""Quality and latency by the length of the source sentence."""

from __future__ import annotations

from simulmt.analysis.studies.bins import study_bins
from simulmt.analysis.studies.material import Material, Result


def by_length(material: Material, *, bins: int = 6) -> Result:
    """BLEU and DAL of the sentences of a length, in source words.

    BLEU is that of the bin as a corpus. DAL grows with length where a model waits for the end.

    Args:
        material: One or several runs.
        bins: At most so many, with about as many sentences in each.
    """
    names = ("source_words", "source length (words)")
    return study_bins(material, lambda instance: instance.source_length, names, bins)
