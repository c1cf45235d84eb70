"""Quality, latency and regret by how far a sentence is reordered."""

from collections.abc import Sequence

from simulmt.analysis.studies.bins import Bins, study_bins
from simulmt.analysis.studies.run_set import Result, RunSet
from simulmt.errors import UserError


def reordering_distance(needs: Sequence[int]) -> int:
    r"""Return the least k with which wait-k reads all source words that the reference needs.

    .. math:: \max_i \, [ a_i - (i - 1) ]

    where :math:`a_i` is the last source word that target word :math:`i` is aligned to: wait-k has
    read :math:`k + i - 1` words when it writes word :math:`i` (Ma et al. 2019, STACL, eq. 6). At
    least 1.

    Args:
        needs: The number of source words that each target word needs; see `Split`.
    """
    return max([1, *(need - i for i, need in enumerate(needs))])


def by_reordering(run_set: RunSet, *, bins: Bins = 6) -> Result:
    """Plot BLEU, DAL, and DAL above the oracle's, by the reordering distance of sentences.

    Args:
        run_set: One or several runs on data with word alignments.
        bins: The most bins, with about as many sentences in each.

    Raises:
        UserError: the data have no word alignments, or are not those that were decoded.
    """
    split = run_set.data.splits["test"]
    if split.needs is None:
        raise UserError(
            f"study=by_reordering: data={run_set.runs[0].options['data.name']} has no word "
            "alignments, which verbfinal has; take study=by_length"
        )
    distances = [reordering_distance(needs) for needs in split.needs]
    names = ("reordering_distance", "reordering distance (the least k that wait-k needs)")
    return study_bins(run_set, lambda i: distances[i.index], names, bins, split)
