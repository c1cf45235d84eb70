"""Latency of a translation from its delays: one batched function for each metric.

A delay `g_i` is the number of source units read before target unit `i` is written. The training
objective calls these functions with expected delays, the evaluation with counted delays. Each
function takes a padded batch and returns one value per sentence, in source units (AP: a share):

- `delays` (B, T): source units read before each target unit was written, counted or expected;
- `source_length` (B,): the number of source units, |x|;
- `target_length` (B,): the number of written units, |y|;
- `reference_length` (B,): the number of units of the reference, |y*|.

Padding, the delays beyond `target_length`, affects neither value nor gradient. The caller clips
delays to the source's length and leaves out EOS. The caller also leaves out sentences without a
target unit: their value here is 0, or NaN for YAAL.

Half-precision delays are computed in float32, since bfloat16 cannot distinguish position 257
from 256.
"""

from collections import ChainMap
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from simulmt import __version__

Delays: TypeAlias = Float[Tensor, "B T"]
"""The delay of each target unit, padded."""
Length: TypeAlias = Shaped[Tensor, "B"]
"""The length of each sentence."""
Latency: TypeAlias = Float[Tensor, "B"]
"""The latency of each sentence."""


def average_proportion(
    delays: Delays,
    source_length: Length,
    target_length: Length,
    reference_length: Length | None = None,
) -> Latency:
    r"""Average proportion of the source read before a target unit is written (AP).

    .. math:: AP = \frac{1}{|x| |y|} \sum_{i=1}^{|y|} g_i

    Cho and Esipova (2016), "Can neural machine translation do simultaneous translation?"; eq. 17
    of Arivazhagan et al. (2019), "Monotonic Infinite Lookback Attention" (MILk). AP is between 0
    and 1 for delays between 0 and :math:`|x|`. With `reference_length` the divisor is
    :math:`|x| |y^*|`, as in SimulEval, and AP exceeds 1 for long translations.
    """
    delays, written = _prepared(delays, target_length)
    share = _mean(delays, written) / source_length.to(delays).clamp(min=1)
    if reference_length is None:
        return share
    return share * target_length.to(delays) / reference_length.to(delays).clamp(min=1)


def average_lagging(
    delays: Delays,
    source_length: Length,
    target_length: Length,
    reference_length: Length | None = None,
) -> Latency:
    r"""Average lagging behind an ideal translator that writes at the source's pace (AL).

    .. math::

        AL = \frac{1}{\tau} \sum_{i=1}^{\tau} \Big[ g_i - \frac{i-1}{\gamma} \Big], \qquad
        \gamma = \frac{|y|}{|x|}, \qquad \tau = \min \{ i : g_i \ge |x| \}

    and :math:`\tau = |y|` if the source is never read to its end. Ma et al. (2019), "STACL";
    eq. 18 and 19 of MILk. Without `reference_length` the pace is that of the hypothesis, as in the
    papers. With `reference_length` it is that of the reference, :math:`\gamma = |y^*| / |x|`, as
    in SimulEval. A first delay of :math:`|x|` or more gives :math:`\tau = 1`, hence
    :math:`AL = g_1`, as in SimulEval.

    :math:`\tau` is a step function of the delays; the gradient is that of the sum with
    :math:`\tau` held constant.
    """
    delays, written = _prepared(delays, target_length)
    read_all = (delays >= source_length.to(delays).unsqueeze(1)) & written
    read_all_before = read_all.cumsum(dim=1) > read_all.long()
    pace_length = target_length if reference_length is None else reference_length
    return _mean(_lag(delays, source_length, pace_length), written & ~read_all_before)


def length_adaptive_average_lagging(
    delays: Delays, source_length: Length, target_length: Length, reference_length: Length
) -> Latency:
    r"""Length-adaptive average lagging, which does not reward long translations (LAAL).

    `average_lagging` with :math:`\gamma = \max(|y|, |y^*|) / |x|`. Papi et al. (2022),
    "Over-Generation Cannot Be Rewarded".
    """
    longer = torch.maximum(target_length, reference_length)
    return average_lagging(delays, source_length, target_length, longer)


def yet_another_average_lagging(
    delays: Delays,
    source_length: Length,
    target_length: Length,
    reference_length: Length,
    end: Length | None = None,
) -> Latency:
    r"""Average lagging of the units written before the source ends (YAAL).

    .. math::

        YAAL = \frac{1}{\tau} \sum_{i=1}^{\tau} \Big[ g_i - \frac{i-1}{\gamma} \Big], \qquad
        \gamma = \frac{\max(|y|, |y^*|)}{|x|}, \qquad \tau = \min \{ i : g_i \ge |x| \} - 1

    and :math:`\tau = |y|` if the source is never read to its end. Polák et al. (2025), "Better
    Late Than Never: Evaluation of Latency Metrics for Simultaneous Speech-to-Text Translation",
    for segmented text. LAAL also counts the first unit after the end; YAAL counts only units whose
    delay the model chose. The value of a sentence without such units is NaN: leave it out.

    LongYAAL of the same paper, for a segment of a stream, also counts units written after the
    segment has ended: :math:`\tau = \min \{ i : g_i \ge T \} - 1` with `end` (B,), the end
    :math:`T` of the whole stream.
    """
    delays, written = _prepared(delays, target_length)
    end = source_length if end is None else end
    read_all = (delays >= end.to(delays).unsqueeze(1)) & written
    before_the_end = written & (read_all.cumsum(dim=1) == 0)
    longer = torch.maximum(target_length, reference_length)
    value = _mean(_lag(delays, source_length, longer), before_the_end)
    return value.masked_fill(~before_the_end.any(dim=1), torch.nan)


def differentiable_average_lagging(
    delays: Delays, source_length: Length, target_length: Length
) -> Latency:
    r"""Average lagging in which writing a unit takes time (DAL).

    .. math::

        g'_1 = g_1, \quad g'_i = \max(g_i, g'_{i-1} + 1/\gamma), \qquad
        DAL = \frac{1}{|y|} \sum_{i=1}^{|y|} \Big[ g'_i - \frac{i-1}{\gamma} \Big], \qquad
        \gamma = \frac{|y|}{|x|}

    Cherry and Foster (2019), "Thinking Slow about Latency Evaluation"; eq. 20 and 21 of MILk.
    The recurrence unrolls to
    :math:`g'_i = \max_{k \le i} (g_k + (i-k)/\gamma)`, so that
    :math:`g'_i - (i-1)/\gamma = \max_{k \le i} (g_k - (k-1)/\gamma)`: a running maximum.
    """
    delays, written = _prepared(delays, target_length)
    lag = _lag(delays, source_length, target_length)
    return _mean(lag.cummax(dim=1).values, written)


def average_token_delay(delays: Delays, source_length: Length, target_length: Length) -> Latency:
    r"""Average time from the end of a source unit to the end of its target unit (ATD).

    .. math::

        ATD = \frac{1}{|y|} \sum_{i=1}^{|y|} \big[ T(y_i) - a_i \big], \qquad
        T(y_i) = \max(g_i, T(y_{i-1})) + 1, \qquad a_i = \min(s_i, g_i), \qquad
        s_i = i - \max(0, b_i - g_{b_i})

    Reading a unit and writing a unit each take one unit of time. Units with the same delay form a
    chunk. Before the chunk of :math:`y_i`, :math:`b_i` units were written and :math:`g_{b_i}`
    source units read (:math:`g_0 = 0`). If the translation was ahead of the source by then, unit
    :math:`i` matches an earlier source unit; it never matches an unread one. Kano et al. (2023),
    "Average Token Delay: A Latency Metric for Simultaneous Translation", for text to text. The
    recurrence unrolls to :math:`T(y_i) = i + \max_{k \le i} (g_k - (k-1))`.

    `source_length` is unused; it gives all metrics the same signature. The gradient holds the
    chunks constant; with expected delays nearly every unit is a separate chunk.
    """
    delays, written = _prepared(delays, target_length)
    delays = delays.masked_fill(~written, 0)
    index = torch.arange(delays.shape[1], device=delays.device).expand(delays.shape)
    before = torch.cat([torch.zeros_like(delays[:, :1]), delays], dim=1)  # (B, T+1): g_0 ... g_T
    starts = (delays != before[:, :-1]) | (index == 0)
    written_before = index.where(starts, torch.zeros_like(index)).cummax(dim=1).values
    ahead = (written_before - before.gather(1, written_before)).clamp(min=0)
    matched = torch.minimum(index + 1 - ahead, delays)
    ends = index + 1 + (delays - index).cummax(dim=1).values
    return _mean(ends - matched, written)


def consecutive_wait(
    delays: Delays, source_length: Length, target_length: Length, read_length: Length | None = None
) -> Latency:
    r"""Consecutive wait: the average number of source units in a run of reads (CW).

    .. math:: CW = \frac{g_{|y|}}{\#\{ i : g_i > g_{i-1} \}}, \qquad g_0 = 0

    Gu et al. (2017), "Learning to Translate in Real-time with Neural Machine Translation",
    section 4, averaged over the runs of a sentence. Reads after the last written unit have no delay
    and are not counted, unless `read_length` (B,) gives the number of units read in total. CW is 0
    if nothing was read. CW is for counted delays: the number of runs has no gradient, and with
    expected delays nearly every step is a run.

    `source_length` is unused; it gives all metrics the same signature.
    """
    delays, written = _prepared(delays, target_length)
    new = delays.masked_fill(~written, 0).cummax(dim=1).values
    new = torch.diff(new, dim=1, prepend=torch.zeros_like(new[:, :1]))
    runs = (new > 0).sum(dim=1)
    read = new.sum(dim=1) if read_length is None else read_length.to(delays)
    return read.masked_fill(runs == 0, 0) / runs.clamp(min=1)


def _prepared(delays: Delays, target_length: Length) -> tuple[Delays, Bool[Tensor, "B T"]]:
    """The delays in float32 or float64; and True for written units, False for padding."""
    if delays.dtype not in {torch.float32, torch.float64}:
        delays = delays.float()
    written = torch.arange(delays.shape[1], device=delays.device) < target_length.unsqueeze(1)
    return delays, written


def _lag(delays: Delays, source_length: Length, pace_length: Length) -> Delays:
    """`g_i - (i-1)/gamma` with `gamma = pace_length / source_length`."""
    steps = torch.arange(delays.shape[1], device=delays.device, dtype=delays.dtype)
    source_per_target = source_length.to(delays) / pace_length.to(delays).clamp(min=1)
    return delays - steps * source_per_target.unsqueeze(1)


def _mean(values: Delays, mask: Bool[Tensor, "B T"]) -> Latency:
    """The mean of each row over the entries in the mask; 0 for an empty mask."""
    return values.masked_fill(~mask, 0).sum(dim=1) / mask.sum(dim=1).clamp(min=1)


class Metric(NamedTuple):
    """A latency metric, and whose length its formula takes.

    Attributes:
        name: The name that papers use.
        formula: A function of this file.
        length: `hyp` (the translation), `ref` (the reference), `max` (the longer of the two),
            `src` (the source), or empty if none.
        ends: True if the formula also takes the end of the stream.
    """

    name: str
    formula: Callable[..., Tensor]
    length: str = "hyp"
    ends: bool = False

    def values(
        self, delays: Tensor, source: Tensor, target: Tensor, reference: Tensor, end: Tensor
    ) -> list[float]:
        """Return the metric of each sentence; NaN where the formula does not define it.

        The arguments are those of the formulas; `end` (B,) is the end of the stream, in source
        units from the start of the sentence.
        """
        lengths = {"ref": [reference], "max": [reference], "src": [source]}
        further = [*lengths.get(self.length, []), *([end] if self.ends else [])]
        return list(self.formula(delays, source, target, *further).tolist())

    def signature(self, *fields: str) -> str:
        """Return how the metric is counted, as sacreBLEU does: `AL|g:ref|u:word|eos:no|v:0.1.0`."""
        length = [f"g:{self.length}"] if self.length else []
        return "|".join([self.name, *length, *fields, "eos:no", f"v:{__version__}"])


METRICS = {
    "AP": Metric("AP", average_proportion),
    "AL": Metric("AL", average_lagging),
    "AL_ref": Metric("AL", average_lagging, "ref"),
    "LAAL": Metric("LAAL", length_adaptive_average_lagging, "max"),
    "DAL": Metric("DAL", differentiable_average_lagging),
    "CW": Metric("CW", consecutive_wait, ""),
}
"""The latencies of the papers, and of the oracle."""
ADDED: dict[str, Metric] = {}
"""Latencies of plugins, by names that no latency of the papers has."""
COUNTED = ChainMap(ADDED, METRICS)
"""The latencies of the convention `paper`; what is added to them is added to `ADDED`."""
