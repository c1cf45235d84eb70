"""OmniSTEval's test of a degenerate policy (version `OMNISTEVAL`)."""

import math
from collections.abc import Sequence

OMNISTEVAL = "0.1.10"
"""Its scores differ from version to version."""
FIGURES = ("SWF", "EFSW", "DSPTV")


def degeneracy(
    sentences: Sequence[tuple[Sequence[float], float]], yaal: Sequence[float]
) -> dict[str, float | None]:
    r"""Return the figures in per cent, over the corpus; None without a word to count.

    .. math::

        SWF = \frac{\sum |\{i: g_i < |x|\}|}{\sum |y|}, \qquad
        EFSW = \frac{\sum \max(0, |x| - YAAL)}{\sum |x|}, \qquad DSPTV = EFSW - SWF

    SWF is the share of words written before the source has ended, EFSW what the lag suggests.
    EFSW sums over the sentences that have a YAAL. Beyond +20 or -20 OmniSTEval calls a policy
    likely degenerate, including one that rightly waits for a verb at the end.

    Args:
        sentences: the delays and the length of the source of each sentence, in words.
        yaal: the YAAL of each sentence; NaN where there is none.
    """
    words = sum(len(delays) for delays, _ in sentences)
    if not words:
        return dict.fromkeys(FIGURES)
    swf = 100 * sum(delay < length for delays, length in sentences for delay in delays) / words
    pairs = zip(sentences, yaal, strict=True)
    lagging = [(length, lag) for (_, length), lag in pairs if not math.isnan(lag)]
    total = sum(length for length, _ in lagging)
    if not total:
        return {"SWF": swf, "EFSW": None, "DSPTV": None}
    efsw = 100 * math.fsum(max(0.0, length - lag) for length, lag in lagging) / total
    return {"SWF": swf, "EFSW": efsw, "DSPTV": efsw - swf}
