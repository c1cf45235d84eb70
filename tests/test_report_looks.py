"""The look of a report's pictures: formats, size, seeds, the Pareto front. The runs are made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.image import imread

from made_up import evaluate_run, make_run, make_scores
from reported import OPTIONS, VERBFINAL, boxes, make_runs, names_drawn
from simulmt.analysis.figures.curve import draw_curve
from simulmt.analysis.figures.panels import save
from simulmt.analysis.figures.style import named_styles
from simulmt.analysis.report import report
from simulmt.analysis.runs.found import find_runs
from simulmt.analysis.tables.points import Point, Series, front_points


def test_formats_width_and_size_of_text(tmp_path, drawn):
    runs = make_runs(tmp_path, *VERBFINAL)
    chosen = {"formats": ["pdf", "png"], "width": 3.5, "font_size": 7}
    report({"runs": runs, **OPTIONS, **chosen})
    assert sorted(path.name for path in runs.glob("curve-*")) == ["curve-DAL.pdf", "curve-DAL.png"]
    pdf = (runs / "curve-DAL.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"/Type3" not in pdf
    assert imread(runs / "curve-DAL.png").shape[1] == 3.5 * 150
    (size,) = {text.get_fontsize() for text in drawn[0].legends[0].get_texts()}
    assert size / drawn[0].get_figwidth() == 7 / 3.5
    report({"runs": runs, **OPTIONS, **chosen})
    assert (runs / "curve-DAL.pdf").read_bytes() == pdf


def test_the_legend_counts_seeds_and_no_whisker_runs_through_a_label(tmp_path, drawn):
    spreads = [(0.6, 3.0), (0.3, 6.0), (0.9, 2.0)]
    points = [
        Point(3 + i, 30 + 2 * i, f"k={i}", spread, runs=("a", "b", "c"))
        for i, spread in enumerate(spreads)
    ]
    lines = [Series("wait-k", points), Series("MILk", [Point(4.4, 33, "λ=1", runs=("d",))])]
    lines.append(Series("some", [points[0], Point(9, 30, "k=9", runs=("a", "b"))]))
    save(draw_curve(lines, "DAL"), [tmp_path / "a.png"])
    assert names_drawn(drawn[0]) == [
        "wait-k (3 seeds)", "MILk", "some (2–3 seeds)", "Pareto front, within 1 s.d.",
        "± s.d. over seeds",
    ]  # fmt: skip
    (axes,) = drawn[0].axes
    assert axes.texts
    for point in points:
        for sign in (-1, 1):
            for way in ((1, 0), (0, 1)):
                shares = np.linspace(0, sign, 200)[:, None] * np.array(way)
                whisker = axes.transData.transform(point.place + shares * point.spread)
                for left, bottom, right, top in boxes(axes)[: len(axes.texts)]:
                    x, y = whisker.T
                    inside = (x > left) & (x < right) & (y > bottom) & (y < top)
                    assert not inside.any()


def test_a_point_is_off_the_front_if_it_is_worse_by_more_than_its_seeds_are():
    best = Point(4.0, 50.0)
    near = Point(4.1, 49.5, spread=(0.2, 0.6))
    slow = Point(4.3, 49.5, spread=(0.2, 0.6))
    poor = Point(4.1, 49.3, spread=(0.2, 0.6))
    certain = Point(4.1, 49.5)
    for other, on in ((near, True), (slow, False), (poor, False), (certain, False)):
        front = front_points([Series("a", [best]), Series("b", [other])])
        assert front == ([best, other] if on else [best])
    wide = Point(4.0, 50.0, spread=(0.2, 0.6))  # the larger deviation of the two counts
    assert front_points([Series("a", [wide, certain])]) == [wide, certain]


def test_only_a_model_without_a_policy_is_drawn_as_an_offline_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "soft", {}, 53, 9)
    evaluate_run(run, "test-best-k1", make_scores(50, 3), policy={"name": "wait_k", "k": 1})
    alone, under_policy = find_runs(tmp_path).runs
    styles = named_styles([alone, under_policy], ["alone", "under a policy"])
    assert [styles[name]["marker"] == "*" for name in styles] == [True, False]


def test_a_whisker_is_as_long_as_the_deviation_of_its_axis() -> None:
    point = Point(3.0, 30.0, "k=1", (0.5, 2.0), runs=("a", "b"))
    (axes,) = draw_curve([Series("wait_k", [point])], "DAL").axes
    (whisker,) = [line for line in axes.lines if len(line.get_xdata()) == 5]
    assert [*whisker.get_xdata()[:2]] == [2.5, 3.5]
    assert [*whisker.get_ydata()[3:]] == [28, 32]
