from __future__ import annotations

import dataclasses

import pytest
from matplotlib.image import imread
from rich.console import Console

from simulmt.analysis.figures.path import MOST, draw_path, interleaved, render_path, word_staircase
from simulmt.analysis.tables.terminal import score_table
from simulmt.decoding.instance import Instance
from simulmt.decoding.word_map import WordMap
from simulmt.scoring.score import score

FARMER = Instance(
    index=3,
    source="der alte Bauer ging heim",
    reference="the old farmer went home",
    prediction="the old farmer went home",
    delays=(2, 2, 3, 5, 5),
    subword_delays=(2, 2, 4, 4, 6, 6),
    subword_source_length=6,
    subword_reference_length=6,
    positions=((1, 2), (2, 2), (3, 4), (4, 4), (5, 6), (7, 7)),
    word_positions=((1, 2), (2, 2), (3, 3), (4, 5), (6, 6)),
)
BARE = Instance(4, FARMER.source, FARMER.reference, FARMER.prediction, FARMER.delays)
EMPTY = Instance(5, FARMER.source, FARMER.reference, "", ())
ONE = Instance(6, "Hallo", "Hello", "Hello", (1,))
NO_SOURCE = Instance(7, "", "", "well", (0,))
WIDE = Instance(
    8,
    " ".join(f"Quellwort{i}" for i in range(60)),
    "",
    " ".join(f"word{i}" for i in range(60)),
    tuple(min(i + 3, 58) for i in range(60)),
)
MARKUP = Instance(9, "[bold] [/]", "[/x]", "[red] :smile:", (1, 2))
ALL = [FARMER, BARE, EMPTY, ONE, NO_SOURCE, WIDE, MARKUP]


def printed(renderable, width):
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


@pytest.mark.parametrize("width", [10, 40, 120])
@pytest.mark.parametrize("instance", ALL, ids=lambda i: str(i.index))
def test_the_terminal_path_fits_and_shows_every_word(instance, width):
    text = printed(render_path(instance, width), width)
    assert all(len(line) <= width for line in text.splitlines())
    if width >= 40 and instance is not WIDE:
        for word in (*instance.source.split(), *instance.prediction.split()):
            assert word in text


def test_the_grid_is_a_staircase():
    lines = printed(render_path(BARE, 80), 80).splitlines()
    assert lines[0] == "sentence 5", "counted from 1"
    assert lines[1].split() == FARMER.source.split()
    assert lines[2].split() == ["2", "the", "███", "████", "·", "·", "·"]
    assert lines[3].split() == ["2", "old", "░░░", "░░░░", "·", "·", "·"]
    assert lines[5].split() == ["5", "went", "░░░", "░░░░", "░░░░░", "████", "████"]


def test_heads_are_counted_in_the_cells_and_eos_has_a_column_if_one_went_there():
    words, source = WordMap((1, 2, 3, 3, 4, 5)), WordMap((1, 2, 3, 3, 4, 5, 6))
    assert words.stops(FARMER.positions, source) == FARMER.word_positions
    lines = printed(render_path(FARMER, 80), 80).splitlines()
    assert lines[1].split()[-1] == "</s>"
    assert lines[2].split()[2:4] == ["█1█", "█1██"]
    assert lines[4].split()[2:5] == ["░░░", "░░░░", "██2██"]
    assert lines[6].split()[-1] == "█2██"
    assert "digit: heads that stopped" in lines[7]
    assert "digit" not in printed(render_path(BARE, 80), 80)


@pytest.mark.parametrize(("letters", "words"), [(1, 900), (5000, 2)])
def test_whatever_a_model_writes_is_shown_within_bounds(letters, words, tmp_path):
    text = " ".join(["como" * (letters // 4) or "c"] * words)
    runaway = Instance(0, text, text, text, tuple(range(1, words + 1)))
    for width in (40, 300):
        assert len(printed(render_path(runaway, width), width).splitlines()) < 70
    assert len(interleaved(runaway)) <= 1000
    grid = word_staircase(runaway)
    assert len(grid.rows) == len(grid.columns) == min(words, MOST)
    assert max(grid.delays) <= len(grid.columns)
    assert max(map(len, [*grid.rows, *grid.columns])) <= 24
    assert grid.left_out == 2 * max(words - MOST, 0)
    draw_path(runaway, tmp_path / "path.png")
    assert max(imread(tmp_path / "path.png").shape) < 2500  # pixels


def test_what_is_left_out_of_a_grid_is_told(drawn, tmp_path):
    words = " ".join("abcdefghijklmnopqrstuvwxyz" * 2)
    instance = Instance(0, words, words, "x y z", (2, 31, 52))
    assert word_staircase(instance).delays == [2, MOST, MOST]
    lines = printed(render_path(instance, 120), 120).splitlines()
    assert "… and 22 more words" in lines
    draw_path(instance, tmp_path / "path.svg")
    (axes,) = drawn[0].axes
    assert axes.get_title(loc="left") == "sentence 1 … and 22 more words"


def test_interleaved():
    text = "der alte | the old | Bauer | farmer | ging heim | went home"
    assert interleaved(FARMER) == text
    assert interleaved(EMPTY) == "(not read: der alte Bauer ging heim)"
    assert interleaved(NO_SOURCE) == " | well"
    early = dataclasses.replace(BARE, delays=(0, 1, 1, 1, 3))
    assert interleaved(early) == (
        " | the | der | old farmer went | alte Bauer | home | (not read: ging heim)"
    )


def test_score_table():
    rows = {"wait-3": score([FARMER, EMPTY]), "offline": score([ONE])}
    rows = {f"{name} [x]": scores for name, scores in rows.items()}
    text = printed(score_table(rows), 120)
    for word in ("BLEU", "chrF", "AL", "DAL", "AP", "LAAL", "–", "1 of 2 predictions are empty"):
        assert word in text
    assert "wait-3 [x]" in text
    assert "oracle" not in text
