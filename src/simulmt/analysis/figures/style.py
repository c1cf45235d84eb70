"""The look of figures.

Colour, marker or dashes alone suffice to tell lines apart.
"""

from collections.abc import Sequence
from itertools import cycle
from typing import Any, TypeAlias

from simulmt.analysis.runs.run import Run

COLOURS = ["#0b5fa5", "#c2410c", "#00795c", "#8e3a86", "#7a5200", "#3f3fa8", "#a31545", "#3d6b1f"]
MARKERS = "osD^vPXph"  # one more than colours, so that combinations repeat late
DASHES = [(), (6, 2), (6, 2, 1, 2), (2, 1), (1, 1), (6, 2, 1, 2, 1, 2), (11, 3), (4, 1, 4, 1, 1, 1)]
GREY, DARK = "#6b6b6b", "#1a1a1a"

Style: TypeAlias = dict[str, Any]
"""Options of an artist of matplotlib."""


def line_styles(offline: Sequence[bool]) -> list[Style]:
    """Return the style of each line.

    Models that read the whole sentence first are stars, joined by nothing; the other lines look the
    same with and without them.

    Args:
        offline: For each line, True if its models read the whole sentence first.
    """
    usual: Style = {"linewidth": 1.8, "markersize": 7.5, "markeredgecolor": "white", "zorder": 3}
    star: Style = {"color": DARK, "marker": "*", "markersize": 12, "linestyle": ""}
    looks = zip(cycle(COLOURS), cycle(MARKERS), cycle(DASHES), strict=False)
    lines = ({"color": c, "marker": mark, "linestyle": (0, dash)} for c, mark, dash in looks)
    return [usual | (star if is_offline else next(lines)) for is_offline in offline]


def named_styles(runs: Sequence[Run], names: Sequence[str]) -> dict[str, Style]:
    """Return the style of each name, in alphabetical order, as in the quality-latency curve.

    Lines of runs that read the whole sentence first are thin and differ in their dashes.

    Args:
        runs: The runs.
        names: The name of each run; several runs may share a name.
    """
    offline = dict(sorted(zip(names, (run.offline for run in runs), strict=True)))
    styles = dict(zip(offline, line_styles([*offline.values()]), strict=True))
    for i, name in enumerate(name for name in offline if offline[name]):
        styles[name] |= {"linestyle": (0, DASHES[i % len(DASHES)]), "linewidth": 1.1}
    return styles
