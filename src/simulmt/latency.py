"""Latency of a translation from its delays: one batched formula per metric.

A delay `g_i` is the number of source units read before target unit `i` is written. The training
objective calls these functions on expected delays, the evaluation on counted ones. All of them
take a padded batch and return one value per sentence, differentiable in the delays; what lies
beyond `target_length` reaches neither the value nor the gradient. Delays are taken as they are:
clipping them to the source's length and leaving out EOS is the caller's part, as is leaving out
the sentences without a target unit (their value is 0).

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
) -> Float[Tensor, "B"]:
    r"""Average proportion of the source that had been read (AP).

    .. math:: AP = \frac{1}{|x| |y|} \sum_{i=1}^{|y|} g_i

    Cho and Esipova (2016), "Can neural machine translation do simultaneous translation?"; eq. 17
    of Arivazhagan et al. (2019), "Monotonic Infinite Lookback Attention" (MILk).

    Args:
        delays: Source units read before each target unit was written; counts or expectations.
        source_length: Number of source units, :math:`|x|`.
        target_length: Number of written units, :math:`|y|`.

    Returns:
        One value per sentence, between 0 and 1 for delays between 0 and :math:`|x|`.
    """
    delays = _at_least_float32(delays)
    written = _written(delays, target_length)
    return _mean(delays, written) / source_length.to(delays).clamp(min=1)


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
    :math:`\gamma = |y^*| / |x|`, as SimulEval has it ("AL_ref"); without it the hypothesis's, as
    in the papers ("AL"). A first delay beyond the source ends the sum at once
    (:math:`\tau = 1`), which is SimulEval's :math:`AL = g_1`.

    The sum's end :math:`\tau` jumps with the delays; the gradient is that of the sum for the
    :math:`\tau` at hand.

    Args:
        delays: Source units read before each target unit was written; counts or expectations.
        source_length: Number of source units, :math:`|x|`.
        target_length: Number of written units, :math:`|y|`.
        reference_length: Number of units of the reference, :math:`|y^*|`.

    Returns:
        One value per sentence, in source units.
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

    Args:
        delays: Source units read before each target unit was written; counts or expectations.
        source_length: Number of source units, :math:`|x|`.
        target_length: Number of written units, :math:`|y|`.
        reference_length: Number of units of the reference, :math:`|y^*|`.

    Returns:
        One value per sentence, in source units.
    """
    longer = torch.maximum(target_length, reference_length)
    return average_lagging(delays, source_length, target_length, longer)


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

    Args:
        delays: Source units read before each target unit was written; counts or expectations.
        source_length: Number of source units, :math:`|x|`.
        target_length: Number of written units, :math:`|y|`.

    Returns:
        One value per sentence, in source units.
    """
    delays = _at_least_float32(delays)
    lag = _lag(delays, source_length, target_length)
    return _mean(lag.cummax(dim=1).values, _written(delays, target_length))


def consecutive_wait(
    delays: Float[Tensor, "B T"],
    source_length: Shaped[Tensor, "B"],
    target_length: Shaped[Tensor, "B"],
) -> Float[Tensor, "B"]:
    r"""Mean number of source units read in one go (CW).

    .. math:: CW = \frac{g_{|y|}}{\#\{ i : g_i > g_{i-1} \}}, \qquad g_0 = 0

    Gu et al. (2017), "Learning to Translate in Real-time with Neural Machine Translation",
    section 4, averaged over the sentence's runs of reading; what is read after the last written
    unit, if anything, belongs to no delay and is not counted. 0 where nothing was read. The
    number of runs is a count without a gradient, and with expected delays nearly every step is
    a run: this one is for counted delays.

    Args:
        delays: Source units read before each target unit was written.
        source_length: Number of source units; not used, here so that all metrics are called alike.
        target_length: Number of written units, :math:`|y|`.

    Returns:
        One value per sentence, in source units.
    """
    del source_length
    delays = _at_least_float32(delays)
    new = delays.masked_fill(~_written(delays, target_length), 0).cummax(dim=1).values
    new = torch.diff(new, dim=1, prepend=torch.zeros_like(new[:, :1]))
    return new.sum(dim=1) / (new > 0).sum(dim=1).clamp(min=1)


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
