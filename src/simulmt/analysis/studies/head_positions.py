"""The position of each head of each layer, and the outliers."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from simulmt.analysis.figures.panels import make_panels, name_rows
from simulmt.analysis.figures.style import COLOURS, DARK, GREY, Style
from simulmt.analysis.runs.run import Row
from simulmt.analysis.studies.run_set import Result, RunSet
from simulmt.decoding.instance import Instance
from simulmt.errors import UserError

LIMIT = 3.5
"""The size of a robust z-score above which a head is an outlier (Iglewicz and Hoaglin 1993)."""

_MEAN: Style = {"color": COLOURS[0], "marker": "o", "markersize": 6.5, "linestyle": ""}
_OUTLIER: Style = {"color": COLOURS[1], "marker": "D", "markersize": 8}
_QUARTILES: Style = {"color": "#9dbfe0", "linewidth": 4, "capstyle": "butt"}
_MEDIAN: Style = {"color": GREY, "linewidth": 1.1, "linestyle": (0, (3, 2))}
_LEGEND: Style = {"loc": "lower center", "bbox_to_anchor": (0.5, 1), "frameon": False}
_LEGEND |= {"fontsize": 9.5, "handlelength": 1.6, "columnspacing": 1.4}
_ABOVE: Style = {"ha": "center", "fontsize": 9, "textcoords": "offset points"}

Floats: TypeAlias = NDArray[np.float64]


def head_positions(run_set: RunSet) -> Result:
    """Plot where each head stands over the test set, decoded again, and which head sets the delay.

    Args:
        run_set: One run.

    Raises:
        UserError: several runs, or a run whose heads make no decisions or that wrote nothing.
    """
    (columns, run), *others = run_set.own()
    if others:
        several = f"{run_set.folder} holds {1 + len(others)} runs"
        one = run_set.folder / run.home
        raise UserError(f"study=head_positions: {several}; give one, such as runs={one}")
    if run.scores.empty == run.scores.sentences:
        none = "no translation has a word, so no head has a position"
        raise UserError(f"runs={run_set.folder}: {none}; give a run that was trained for longer")
    instances, heads = ([], []) if run.traits.offline else run_set.decode(run)
    if not heads:
        why = f"the heads of {run.mechanism} do not stop"
        raise UserError(f"{run.path}: {why}; give a run of mma_h")
    rows = describe(instances, heads)
    return Result(_draw(rows), [columns | row for row in rows])


def describe(instances: Sequence[Instance], heads: Sequence[int]) -> list[Row]:
    """Return a row for each head over the written subwords, in source subwords.

    - `position_mean_subword`: where the head stands; at EOS, or beyond the end, it counts as at the
      last subword, as in the attention span.
    - `lag_mean_subword`: its position minus that of a reader with the pace of the sentence,
      (i - 1) |x| / |y|.
    - `behind_mean_subword`: how far it stands behind the slowest head of all layers, which has just
      let the subword be written; `behind_q25_subword` and `behind_q75_subword` are the quartiles.
    - `share_slowest`: how often no head stands further.
    - `share_alone`: how often no head stands as far, so that this head alone sets the delay.
    - `robust_z`: `robust_z` of its mean position among the heads of all layers.
    - `outlier`: `slow` or `fast` where `robust_z` is beyond `LIMIT`, else empty.
    - `subwords`: the number of subwords written.

    Args:
        instances: The decoded sentences, with the positions of the heads.
        heads: The number of heads of each layer, in the order of these positions.
    """
    stood, lags = _positions(instances)
    furthest = stood.max(1, keepdims=True)
    behind, slowest = furthest - stood, stood == furthest
    alone = slowest & (slowest.sum(1, keepdims=True) == 1)
    low, high = np.quantile(behind, (0.25, 0.75), axis=0)
    z = robust_z(stood.mean(0))
    names = np.array([(layer, h + 1) for layer, n in enumerate(heads, 1) for h in range(n)])
    columns = {
        "layer": names[:, 0],
        "head": names[:, 1],
        "position_mean_subword": stood.mean(0),
        "lag_mean_subword": lags.mean(0),
        "behind_mean_subword": behind.mean(0),
        "behind_q25_subword": low,
        "behind_q75_subword": high,
        "share_slowest": slowest.mean(0),
        "share_alone": alone.mean(0),
        "robust_z": z,
        "outlier": np.select([z > LIMIT, z < -LIMIT], ["slow", "fast"], ""),
        "subwords": np.full(len(z), len(stood)),
    }
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def robust_z(values: Floats) -> Floats:
    r"""Return how far each value is from the median, in robust standard deviations.

    .. math:: z_h = 0.6745 \, (x_h - \tilde x) / MAD, \qquad MAD = median_h |x_h - \tilde x|

    Iglewicz and Hoaglin (1993), "How to Detect and Handle Outliers". Where half of the values are
    the same, MAD is 0 and the mean absolute deviation times 1.2533 takes the place of
    MAD / 0.6745; where all are, z is 0.
    """
    away = values - np.median(values)
    scale = np.median(abs(away)) / 0.6745 or abs(away).mean() * 1.2533
    return away / scale if scale > 0 else np.zeros_like(away)


def _positions(instances: Sequence[Instance]) -> tuple[Floats, Floats]:
    """Return each head's position at each written subword (N, H), and its lag, (N, H)."""
    stood, lags = list[Floats](), list[Floats]()
    for instance in instances:
        steps = [heads for heads in instance.positions if heads]
        if steps:
            last = instance.subword_source_length
            rows = np.array(steps, dtype=np.float64)
            rows = np.where((rows == 0) | (rows > last), last, rows)
            stood.append(rows)
            lags.append(rows - np.arange(len(rows))[:, None] * last / len(rows))
    return np.concatenate(stood), np.concatenate(lags)


def _draw(heads: Sequence[Row]) -> Figure:
    """Draw a row for each head: left its position, right how often the head sets the delay."""
    size = min(max(0.2, 3.4 / len(heads)), 0.5) if len(heads) < 64 else 0.13
    figure, (left, right) = make_panels(1, 2, 7.6, 1.3 + size * len(heads))
    places = [i + 0.7 * head["layer"] for i, head in enumerate(heads)]
    name_rows((left, right), [f"layer {h['layer']}, head {h['head']}" for h in heads], places)
    left.tick_params(axis="y", labelsize=8 if size < 0.2 else 9.5)
    means, low, high = ([h[f"behind_{x}_subword"] for h in heads] for x in ("mean", "q25", "q75"))
    quartiles = left.hlines(places, low, high, **_QUARTILES, zorder=2, label="quartiles")
    for head, place in zip(heads, zip(means, places, strict=True), strict=True):
        style = _OUTLIER if head["outlier"] else _MEAN
        left.plot(*place, **style, markeredgecolor="white", zorder=3)
        left.annotate(head["outlier"], place, (0, 6), color=COLOURS[1], **_ABOVE)
    median = left.axvline(float(np.median(means)), **_MEDIAN, zorder=1, label="median head")
    mean = Line2D([], [], **_MEAN, label="mean")
    left.legend(handles=[mean, quartiles, median], **_LEGEND, ncols=3)
    furthest = max(1.0, *high, *means)
    left.set_xlim(1.05 * furthest, -0.06 * furthest)  # the slowest head on the right
    left.set_xlabel("subwords behind the slowest head")
    slowest, alone = ([100 * h[f"share_{x}"] for h in heads] for x in ("slowest", "alone"))
    right.barh(places, slowest, height=0.7, color="#c9dcee", label="among the slowest")
    right.barh(places, alone, height=0.7, color=DARK, label="slowest alone")
    right.set(xlabel="subwords written (%)", xlim=(0, 100))
    right.legend(**_LEGEND, ncols=2)
    return figure
