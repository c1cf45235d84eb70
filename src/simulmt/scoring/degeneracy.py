"""Whether a policy is degenerate, as OmniSTEval asks (version `OMNISTEVAL`)."""

import math
from collections.abc import Sequence

OMNISTEVAL = "0.1.10"
"""Its scores differ from version to version."""
FIGURES = ("SWF", "EFSW", "DSPTV")


def degeneracy(
    delays: Sequence[Sequence[float]], source_lengths: Sequence[int], yaal: Sequence[float]
) -> dict[str, float | None]:
    r"""Return the figures in per cent, over the corpus; None without a word to count.

    .. math::

        SWF = \frac{\sum |\{i: g_i < |x|\}|}{\sum |y|}, \qquad
        EFSW = \frac{\sum \max(0, |x| - YAAL)}{\sum |x|}, \qquad DSPTV = EFSW - SWF

    SWF is the share of words written while the source is coming, and EFSW what the lag lets expect.
    EFSW sums over the sentences that have a YAAL. Beyond 20 either way OmniSTEval calls a policy
    likely degenerate; one that rightly waits for a verb at the end is called so, too.

    Args:
        delays: the delays of each sentence, in words.
        source_lengths: in words.
        yaal: the YAAL of each sentence; NaN where there is none.
    """
    sentences = [*zip(delays, source_lengths, yaal, strict=True)]
    words = sum(len(written) for written, _, _ in sentences)
    if not words:
        return dict.fromkeys(FIGURES)
    early = sum(delay < length for written, length, _ in sentences for delay in written)
    lagging = [(length, lag) for _, length, lag in sentences if not math.isnan(lag)]
    total = sum(length for length, _ in lagging)
    swf = 100 * early / words
    if not total:
        return {"SWF": swf, "EFSW": None, "DSPTV": None}
    efsw = 100 * math.fsum(max(0.0, length - lag) for length, lag in lagging) / total
    return {"SWF": swf, "EFSW": efsw, "DSPTV": efsw - swf}
