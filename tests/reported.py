"""What the tests of reports share: made-up runs of one test set, quick options, a page parsed."""

from __future__ import annotations

import csv
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from made_up import ROOT, make_run

SOFT = ("soft", {}, 99.9, 10.2)
WAIT_K = [
    ("wait_k", {"mechanism.k": k}, bleu, dal)
    for k, bleu, dal in ((1, 62, 2.4), (3, 75, 3.9), (5, 87, 5.6), (7, 93, 7.2))
]
MMA_IL = [
    ("mma_il", {"lambda": weight}, bleu, dal)
    for weight, bleu, dal in ((0.0, 99.8, 5.6), (0.1, 99.7, 4.6), (0.2, 99.6, 4.2), (0.4, 97, 3.9))
]
VERBFINAL = [SOFT, *WAIT_K, *MMA_IL]
DEFAULTS = yaml.safe_load((ROOT / "conf" / "report.yaml").read_text(encoding="utf-8"))
OPTIONS = {k: v for k, v in DEFAULTS.items() if k not in ("defaults", "hydra", "plugins", "runs")}
OPTIONS["latency"] = "DAL"  # one picture instead of three
QUICK = OPTIONS | {"resamples": 60}
VOID = {"meta", "br", "use", "path", "rect"}


def make_runs(folder: Path, *runs: tuple) -> Path:
    for i, run in enumerate(runs):
        make_run(folder / f"run-{i}", *run)
    return folder


def table_rows(out: str) -> list[list[str]]:
    lines = [line for line in out.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def boxes(axes: Axes) -> list[np.ndarray]:
    """Of everything that must not overlap: labels, legend and markers."""
    figure = axes.figure
    assert isinstance(figure, Figure)
    found = [text.get_window_extent().extents for text in axes.texts]
    found += [legend.get_window_extent().extents for legend in figure.legends]
    for line in axes.lines:
        if line.get_marker() != "None":
            spots = axes.transData.transform(np.asarray(line.get_xydata()))
            found += [np.concatenate([spot - 7, spot + 7]) for spot in spots]
    return found


def names_drawn(figure: Figure) -> list[str]:
    """Of the entries of the legend."""
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


class Page(HTMLParser):
    """Checks that what opens closes, and keeps attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["script"]:
            self.text += data
