"""Quality and latency by the length of the source sentence."""

from simulmt.analysis.studies.bins import Bins, study_bins
from simulmt.analysis.studies.run_set import Result, RunSet


def by_length(run_set: RunSet, *, bins: Bins = 6) -> Result:
    """Plot BLEU and DAL by the length of sentences, in source words.

    Each bin is a corpus for BLEU. DAL grows with length where a model waits for the end.

    Args:
        run_set: One or several runs.
        bins: The most bins, with about as many sentences in each.
    """
    names = ("source_words", "source length (words)")
    return study_bins(run_set, lambda instance: instance.source_length, names, bins)
