"""AP, AL and DAL of a whole stream (Iranzo-Sánchez, Civera and Juan, EMNLP Findings 2021)."""

import math
from collections.abc import Sequence

from simulmt.scoring.score import UnitDelays


def streaming_latency(segments: Sequence[UnitDelays], s: float = 0.95) -> dict[str, float]:
    r"""Return AP, AL and DAL of a document, means over all its segments.

    With the delays :math:`G_n(t)` of segment :math:`n` in source words of the whole stream, its
    start :math:`B_n`, :math:`g_n(t) = G_n(t) - B_n` and :math:`\gamma_n = |y_n| / |x_n|`:

    .. math::

        AP_n = \frac{\sum_t g_n(t)}{|x_n| |y_n|}, \qquad
        AL_n = \frac{1}{\tau_n} \sum_{t=1}^{\tau_n} \Big[ g_n(t) - \frac{t-1}{\gamma_n} \Big],
        \qquad \tau_n = \min \{ t : g_n(t) \ge |x_n| \}

    and :math:`\tau_n = |y_n|` if there is no such word. DAL runs on across segments:

    .. math::

        G'_n(t) = \max \Big( G_n(t), G'_{prev} + \frac{s}{\gamma^*} \Big), \qquad
        DAL_n = \frac{1}{|y_n|} \sum_t \Big[ G'_n(t) - B_n - \frac{t-1}{\gamma_n} \Big]

    where :math:`\gamma^*` is :math:`\gamma_{n-1}` for the first word of a segment and
    :math:`\gamma_n` for the others; after a segment without words, :math:`G'_n(1) = G'_{prev}`. The
    first word of the document has :math:`G' = G`. With :math:`s = 1` a translator that has fallen
    behind can never catch up. A segment without words, or without source, counts 0 in the means.

    Args:
        segments: All segments in their order, at least one; the delays are :math:`g_n`, from the
            start of the segment, and may be negative or above :math:`|x_n|`; `end` is the end of
            the segment in the whole source.
        s: The share of :math:`1 / \gamma` that writing a word costs.
    """
    ap, al, dal = [], [], []
    latest, pace_before, end_before = -math.inf, 0.0, 0.0  # pace: 1 / gamma
    for delays, length, _, end in segments:
        latest -= end_before - end  # from the start of this segment
        pace, delayed = length / max(len(delays), 1), []
        for t, delay in enumerate(delays):
            step = pace if t else pace_before
            resumed = latest if math.isnan(step) else max(delay, latest + s * step)
            latest = delay if latest == -math.inf else resumed
            delayed.append(latest - t * pace)
        if delays and length:
            tau = next((t for t, g in enumerate(delays, 1) if g >= length), len(delays))
            ap.append(math.fsum(delays) / len(delays) / length)
            al.append(math.fsum(g - t * pace for t, g in enumerate(delays[:tau])) / tau)
            dal.append(math.fsum(delayed) / len(delays))
        pace_before, end_before = pace if delays else math.nan, end
    return {n: sum(v) / len(segments) for n, v in (("AP", ap), ("AL", al), ("DAL", dal))}
