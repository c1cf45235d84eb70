"""Latency of a translation from its delays: one batched formula per metric.

A delay `g_i` is the number of source units read before target unit `i` is written. The training
objective calls these functions on expected delays, the evaluation on counted ones. All of them
take a padded batch and return one value per sentence, in source units (AP is a share):

- `delays` (B, T): source units read before each target unit was written; counts or expectations;
- `source_length` (B,): the number of source units, |x|;
- `target_length` (B,): the number of written units, |y|;
- `reference_length` (B,): the number of units of the reference, |y*|.

What lies beyond `target_length` reaches neither the value nor the gradient. Delays are taken as
they are: clipping them to the source's length and leaving out EOS is the caller's part, as is
leaving out the sentences without a target unit (their value is 0).

Half-precision delays are computed in float32: bfloat16 cannot tell position 257 from 256.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor


def average_proportion(
    delays: Float[Tensor, "B T"],
    source_length: Shaped[Tensor, "B"],
    target_length: Shaped[Tensor, "B"],
    reference_length: Shaped[Tensor, "B"] | None = None,
) -> Float[Tensor, "B"]:
    r"""Average proportion of the source that had been read (AP).

    .. math:: AP = \frac{1}{|x| |y|} \sum_{i=1}^{|y|} g_i

    Cho and Esipova (2016), "Can neural machine translation do simultaneous translation?"; eq. 17
    of Arivazhagan et al. (2019), "Monotonic Infinite Lookback Attention" (MILk). Between 0 and 1
    for delays between 0 and :math:`|x|`; with `reference_length`, by which SimulEval divides in
    the place of :math:`|y|`, above 1 for long translations.
    """
    delays = _at_least_float32(delays)
    written = _written(delays, target_length)
    share = _mean(delays, written) / source_length.to(delays).clamp(min=1)
    if reference_length is None:
        return share
    return share * target_length.to(delays) / reference_length.to(delays).clamp(min=1)


def average_lagging(
    delays: Float[Tensor, "B T"],
    source_length: Shaped[Tensor, "B"],
    target_length: Shaped[Tensor, "B"],
    reference_length: Shaped[Tensor, "B"] | None = None,
) -> Float[Tensor, "B"]:
    r"""Average lagging behind a writer that keeps pace with the source (AL).

    .. math::

        AL = \frac{1}{\tau} \sum_{i=1}^{\tau} \Big[ g_i - \frac{i-1}{\gamma} \Big], \qquad
        \gamma = \frac{|y|}{|x|}, \qquad \tau = \min \{ i : g_i \ge |x| \}

    and :math:`\tau = |y|` where the source is never read to its end. Ma et al. (2019), "STACL";
    eq. 18 and 19 of MILk. With `reference_length` the pace is the reference's,
    :math:`\gamma = |y^*| / |x|`, as SimulEval has it; without it the hypothesis's, as in the
    papers. A first delay beyond the source ends the sum at once (:math:`\tau = 1`), which is
    SimulEval's :math:`AL = g_1`.

    The sum's end :math:`\tau` jumps with the delays; the gradient is that of the sum for the
    :math:`\tau` at hand.
    """
    delays = _at_least_float32(delays)
    written = _written(delays, target_length)
    read_all = (delays >= source_length.to(delays).unsqueeze(1)) & written
    read_all_before = read_all.cumsum(dim=1) > read_all.long()
    pace_length = target_length if reference_length is None else reference_length
    return _mean(_lag(delays, source_length, pace_length), written & ~read_all_before)


def length_adaptive_average_lagging(
    delays: Float[Tensor, "B T"],
    source_length: Shaped[Tensor, "B"],
    target_length: Shaped[Tensor, "B"],
    reference_length: Shaped[Tensor, "B"],
) -> Float[Tensor, "B"]:
    r"""Average lagging that does not reward writing too much (LAAL).

    :func:`average_lagging` with :math:`\gamma = \max(|y|, |y^*|) / |x|`. Papi et al. (2022),
    "Over-Generation Cannot Be Rewarded".
    """
    longer = torch.maximum(target_length, reference_length)
    return average_lagging(delays, source_length, target_length, longer)


def yet_another_average_lagging(
    delays: Float[Tensor, "B T"],
    source_length: Shaped[Tensor, "B"],
    target_length: Shaped[Tensor, "B"],
    reference_length: Shaped[Tensor, "B"],
) -> Float[Tensor, "B"]:
    r"""Average lagging of what is written while the source still comes in (YAAL).

    .. math::

        YAAL = \frac{1}{\tau} \sum_{i=1}^{\tau} \Big[ g_i - \frac{i-1}{\gamma} \Big], \qquad
        \gamma = \frac{\max(|y|, |y^*|)}{|x|}, \qquad \tau = \min \{ i : g_i \ge |x| \} - 1

    and :math:`\tau = |y|` where the source is never read to its end. Polák et al. (2025), "Better
    Late Than Never: Evaluation of Latency Metrics for Simultaneous Speech-to-Text Translation",
    for segmented text. LAAL counts the first unit after the end, too; here only units count whose
    delay the model chose. A sentence without any has no YAAL: its value is NaN, to be left out.
    """
    delays = _at_least_float32(delays)
    written = _written(delays, target_length)
    read_all = (delays >= source_length.to(delays).unsqueeze(1)) & written
    before_the_end = written & (read_all.cumsum(dim=1) == 0)
    longer = torch.maximum(target_length, reference_length)
    value = _mean(_lag(delays, source_length, longer), before_the_end)
    return value.masked_fill(~before_the_end.any(dim=1), torch.nan)


def differentiable_average_lagging(
    delays: Float[Tensor, "B T"],
    source_length: Shaped[Tensor, "B"],
    target_length: Shaped[Tensor, "B"],
) -> Float[Tensor, "B"]:
    r"""Average lagging where writing takes time, too (DAL).

    .. math::

        g'_1 = g_1, \quad g'_i = \max(g_i, g'_{i-1} + 1/\gamma), \qquad
        DAL = \frac{1}{|y|} \sum_{i=1}^{|y|} \Big[ g'_i - \frac{i-1}{\gamma} \Big], \qquad
        \gamma = \frac{|y|}{|x|}

    Cherry and Foster (2019), "Thinking Slow about Latency Evaluation"; eq. 20 and 21 of MILk.
    Unrolled, the recurrence is
    :math:`g'_i = \max_{k \le i} (g_k + (i-k)/\gamma)`, so that
    :math:`g'_i - (i-1)/\gamma = \max_{k \le i} (g_k - (k-1)/\gamma)`: a running maximum.
    """
    delays = _at_least_float32(delays)
    lag = _lag(delays, source_length, target_length)
    return _mean(lag.cummax(dim=1).values, _written(delays, target_length))


def average_token_delay(
    delays: Float[Tensor, "B T"],
    source_length: Shaped[Tensor, "B"],
    target_length: Shaped[Tensor, "B"],
) -> Float[Tensor, "B"]:
    r"""Mean time from a source unit's end to that of the target unit that matches it (ATD).

    .. math::

        ATD = \frac{1}{|y|} \sum_{i=1}^{|y|} \big[ T(y_i) - a_i \big], \qquad
        T(y_i) = \max(g_i, T(y_{i-1})) + 1, \qquad a_i = \min(s_i, g_i), \qquad
        s_i = i - \max(0, b_i - g_{b_i})

    A unit takes a unit of time to read and to write. Units with the same delay are a chunk;
    :math:`b_i` units were written before the chunk of :math:`y_i`, when :math:`g_{b_i}` source
    units (:math:`g_0 = 0`) had been read: if the translation ran ahead of the source by then,
    unit :math:`i` matches an earlier source unit, and never one that was not read. Kano et al.
    (2023), "Average Token Delay: A Latency Metric for Simultaneous Translation", for text to
    text. Unrolled, :math:`T(y_i) = i + \max_{k \le i} (g_k - (k-1))`.

    `source_length` is not used, but here so that all metrics are called alike. The gradient is
    that for the chunks at hand; with expected delays nearly every unit is a chunk.
    """
    del source_length
    delays = _at_least_float32(delays)
    written = _written(delays, target_length)
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
    delays: Float[Tensor, "B T"],
    source_length: Shaped[Tensor, "B"],
    target_length: Shaped[Tensor, "B"],
    read_length: Shaped[Tensor, "B"] | None = None,
) -> Float[Tensor, "B"]:
    r"""Mean number of source units read in one go (CW).

    .. math:: CW = \frac{g_{|y|}}{\#\{ i : g_i > g_{i-1} \}}, \qquad g_0 = 0

    Gu et al. (2017), "Learning to Translate in Real-time with Neural Machine Translation",
    section 4, averaged over the sentence's runs of reading; what is read after the last written
    unit, if anything, belongs to no delay and is not counted, unless `read_length` says how many
    units were read in all. 0 where nothing was read. The number of runs is a count without a
    gradient, and with expected delays nearly every step is a run: this one is for counted delays.
    `source_length` is not used, but here so that all metrics are called alike.
    """
    del source_length
    delays = _at_least_float32(delays)
    new = delays.masked_fill(~_written(delays, target_length), 0).cummax(dim=1).values
    new = torch.diff(new, dim=1, prepend=torch.zeros_like(new[:, :1]))
    runs = (new > 0).sum(dim=1)
    read = new.sum(dim=1) if read_length is None else read_length.to(delays)
    return read.masked_fill(runs == 0, 0) / runs.clamp(min=1)


def _at_least_float32(delays: Tensor) -> Float[Tensor, "B T"]:
    return delays if delays.dtype in {torch.float32, torch.float64} else delays.float()


def _written(
    delays: Float[Tensor, "B T"], target_length: Shaped[Tensor, "B"]
) -> Bool[Tensor, "B T"]:
    """True at the units that were written, False at padding."""
    return torch.arange(delays.shape[1], device=delays.device) < target_length.unsqueeze(1)


def _lag(
    delays: Float[Tensor, "B T"],
    source_length: Shaped[Tensor, "B"],
    pace_length: Shaped[Tensor, "B"],
) -> Float[Tensor, "B T"]:
    """`g_i - (i-1)/gamma` with `gamma = pace_length / source_length`."""
    steps = torch.arange(delays.shape[1], device=delays.device, dtype=delays.dtype)
    source_per_target = source_length.to(delays) / pace_length.to(delays).clamp(min=1)
    return delays - steps * source_per_target.unsqueeze(1)


def _mean(values: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B"]:
    """Mean over each row's masked-in entries, 0 where there are none."""
    return values.masked_fill(~mask, 0).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
