"""Where each head of each layer stands, and which ones stand apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from simulmt.analysis.studies.lines import panels
from simulmt.analysis.studies.material import Decoded, Material, Result, about
from simulmt.analysis.style import COLOURS, DARK, GREY
from simulmt.decoding.instance import Instance
from simulmt.errors import UserError

LIMIT = 3.5
"""Of the robust z-score's size, above which a head is an outlier (Iglewicz and Hoaglin 1993)."""

_QUARTILES: dict[str, Any] = {"color": "#9dbfe0", "linewidth": 4, "solid_capstyle": "butt"}
_LEGEND: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1), "frameon": False,
                           "fontsize": 9.5, "handlelength": 1.6, "columnspacing": 1.4}  # fmt: skip

Floats: TypeAlias = NDArray[np.float64]


def head_positions(material: Material) -> Result:
    """Each head over the test set, decoded anew: where it stands and whether it sets the delay.

    All is over the written subwords of the corpus, in source subwords; a head at EOS, or one that
    has run off the end, counts as one at the last subword, as in the attention span.

    - `behind`: how far the head stands behind the slowest one of all layers, which has just let
      the subword be written. Mean, and first and third quartile.
    - `lag`: its position minus that of a reader with the pace of the sentence, (i - 1) |x| / |y|.
    - `share_slowest`, `share_alone`: how often no head stands further, and how often none stands
      as far: then this head alone sets the delay.
    - `outlier`: `slow` or `fast` for a head whose robust z-score, `robust_z` of the mean
      positions of the heads of all layers, is beyond `LIMIT`.

    Args:
        material: One run.

    Raises:
        UserError: several runs, or one whose heads take no decisions.
    """
    runs = material.runs
    if len(runs) > 1:
        raise UserError(
            f"study=head_positions is of one run, {material.folder} holds {len(runs)}, such as "
            f"{runs[0].folder}; give the directory of one"
        )
    if runs[0].trait("offline"):
        raise UserError(
            f"{material.place(runs[0])}: {runs[0].mechanism} reads the whole sentence first, its "
            "heads stop nowhere; give a run of a mechanism that streams, such as mma_h"
        )
    decoded = material.decode(material.place(runs[0]))
    rows = [about(runs[0]) | row for row in describe(decoded)]
    return Result(_draw(rows), rows)


def describe(decoded: Decoded) -> list[dict[str, Any]]:
    """A row for each head, in the order of layers."""
    stood, lags = _positions(decoded.instances)
    if stood.shape[1] != sum(decoded.heads):
        raise ValueError(f"{stood.shape[1]} heads stand somewhere, the model has {decoded.heads}")
    read = stood.max(1, keepdims=True)
    slowest = stood == read
    alone = slowest & (slowest.sum(1, keepdims=True) == 1)
    z = robust_z(stood.mean(0))
    names = [(layer, h) for layer, n in enumerate(decoded.heads, 1) for h in range(1, n + 1)]
    behind = read - stood
    low, high = np.quantile(behind, (0.25, 0.75), axis=0)
    return [
        {
            "layer": layer,
            "head": head,
            "position_mean_subword": float(stood[:, i].mean()),
            "lag_mean_subword": float(lags[:, i].mean()),
            "behind_mean_subword": float(behind[:, i].mean()),
            "behind_q25_subword": float(low[i]),
            "behind_q75_subword": float(high[i]),
            "share_slowest": float(slowest[:, i].mean()),
            "share_alone": float(alone[:, i].mean()),
            "robust_z": float(z[i]),
            "outlier": "slow" if z[i] > LIMIT else "fast" if z[i] < -LIMIT else "",
            "subwords": len(stood),
        }
        for i, (layer, head) in enumerate(names)
    ]


def robust_z(values: Floats) -> Floats:
    r"""How far each value is from the median, in robust standard deviations.

    .. math:: z_h = 0.6745 \, (x_h - \tilde x) / MAD, \qquad MAD = median_h |x_h - \tilde x|

    Iglewicz and Hoaglin (1993), "How to Detect and Handle Outliers". Where half of the values are
    the same, MAD is 0 and the mean absolute deviation times 1.2533 takes the place of
    MAD / 0.6745; where all are, z is 0.
    """
    away = values - np.median(values)
    scale = np.median(abs(away)) / 0.6745 or abs(away).mean() * 1.2533
    return away / scale if scale > 0 else np.zeros_like(away)


def _positions(instances: Sequence[Instance]) -> tuple[Floats, Floats]:
    """Where each head stood at each written subword (N, H), and the same minus an even pace."""
    stood, lags = list[Floats](), list[Floats]()
    for instance in instances:
        steps = [heads for heads in instance.positions if heads]
        if steps:
            last = instance.subword_source_length
            rows = np.array(steps, dtype=np.float64)
            rows = np.where((rows == 0) | (rows > last), last, rows)
            pace = np.arange(len(rows))[:, None] * last / len(rows)
            stood.append(rows)
            lags.append(rows - pace)
    if not stood:
        raise UserError(
            "no head stands anywhere in the decoded test set: nothing was written, or no head of "
            "the mechanism takes decisions"
        )
    return np.concatenate(stood), np.concatenate(lags)


def _draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """A line for each head; left where it stands, right how often it sets the delay."""
    size = min(max(0.2, 3.4 / len(rows)), 0.5) if len(rows) < 64 else 0.13
    figure, (left, right) = panels(1, 2, 7.6, 1.3 + size * len(rows))
    places = [i + 0.7 * row["layer"] for i, row in enumerate(rows)]
    for axes in (left, right):
        axes.set_ylim(places[-1] + 0.8, places[0] - 0.8)
        axes.grid(visible=False, axis="y")
    _draw_distances(left, rows, places)
    _draw_shares(right, rows, places)
    left.set_yticks(places, [f"layer {r['layer']}, head {r['head']}" for r in rows])
    right.set_yticks(places, [""] * len(rows))
    for label in left.get_yticklabels():
        label.set_fontsize(8 if size < 0.2 else 9.5)
    return figure


def _draw_distances(axes: Axes, rows: Sequence[dict[str, Any]], places: Sequence[float]) -> None:
    for row, y in zip(rows, places, strict=True):
        ends = [row["behind_q25_subword"], row["behind_q75_subword"]]
        axes.plot(ends, [y, y], **_QUARTILES, zorder=2)
        out = row["outlier"]
        colour, marker, size = (COLOURS[1], "D", 8) if out else (COLOURS[0], "o", 6.5)
        axes.plot(row["behind_mean_subword"], y, color=colour, marker=marker, markersize=size,
                  markeredgecolor="white", zorder=3)  # fmt: skip
        if out:
            axes.annotate(out, (row["behind_mean_subword"], y), (0, 6), color=COLOURS[1],
                          textcoords="offset points", ha="center", fontsize=9)  # fmt: skip
    middle = float(np.median([row["behind_mean_subword"] for row in rows]))
    line: dict[str, Any] = {"color": GREY, "linewidth": 1.1, "linestyle": (0, (3, 2))}
    axes.axvline(middle, **line, zorder=1)
    dot: dict[str, Any] = {"color": COLOURS[0], "marker": "o", "linestyle": ""}
    entries = ((dot, "mean"), (_QUARTILES, "quartiles"), (line, "median head"))
    handles = [Line2D([], [], **style, label=label) for style, label in entries]
    axes.legend(handles=handles, **_LEGEND, ncols=3)
    furthest = max(max(r["behind_q75_subword"], r["behind_mean_subword"]) for r in rows)
    axes.set_xlim(1.05 * max(furthest, 1), -0.06 * max(furthest, 1))  # the slowest on the right
    axes.set_xlabel("subwords behind the slowest head", fontsize=11)


def _draw_shares(axes: Axes, rows: Sequence[dict[str, Any]], places: Sequence[float]) -> None:
    slowest, alone = ([100 * row[key] for row in rows] for key in ("share_slowest", "share_alone"))
    axes.barh(places, slowest, height=0.7, color="#c9dcee", label="among the slowest")
    axes.barh(places, alone, height=0.7, color=DARK, label="slowest alone")
    axes.set_xlabel("subwords written (%)", fontsize=11)
    axes.set_xlim(0, 100)
    axes.legend(**_LEGEND, ncols=2)
