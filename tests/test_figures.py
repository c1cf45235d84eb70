"""The tables of figures in the documentation are those of the committed data."""

from __future__ import annotations

import re
from pathlib import Path

import figures
import pytest

HELD = (
    "README.md",
    "docs/reports.md",
    "docs/results.md",
    "docs/serve.md",
    "experiments/future_guided/README.md",
    "experiments/milk/README.md",
    "experiments/verbfinal/README.md",
    "experiments/zoo/README.md",
)
DATA = "system,k,BLEU\nwait_k,3,69.24\nwait_k,5,81.92\nsoft,,99.79\n"
PAGE = """<!-- data.csv | system= | BLEU .1f | -->
| | BLEU | |
|---|---|---|
| `wait_k` k=3 | {} | as published: 70.0 |
| `soft`, the whole sentence first | {} | |
| *oracle* | 1.0 | |
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data.csv").write_text(DATA)
    return tmp_path


@pytest.mark.parametrize("page", HELD)
def test_filling_the_figures_changes_nothing(page: str) -> None:
    path = figures.ROOT / page
    assert path in figures.pages()
    text = path.read_text(encoding="utf-8")
    assert figures.TABLE.search(text)
    assert figures.fill(text, path.parent) == text


@pytest.mark.parametrize("path", figures.pages(), ids=lambda p: str(p.relative_to(figures.ROOT)))
def test_every_comment_that_names_data_is_above_a_table(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tables = figures.TABLE.finditer(text)
    filled = sum(len(figures.COMMENT.findall(table["comments"])) for table in tables)
    assert len(re.findall(r"<!-- [\w./-]+\.(?:csv|json)", text)) == filled
    assert filled == 0 or str(path.relative_to(figures.ROOT)) in HELD


def test_a_figure_comes_from_the_record_that_its_row_names(folder: Path) -> None:
    assert figures.fill(PAGE.format(0, 0), folder) == PAGE.format("69.2", "99.8")


def test_several_records_make_a_mean_only_where_a_mean_is_asked_for(folder: Path) -> None:
    page = PAGE.format(0, 0).replace(" k=3", "")
    with pytest.raises(ValueError, match=r"data\.csv: 2 records match system=wait_k"):
        figures.fill(page, folder)
    assert "| `wait_k` | 75.58 |" in figures.fill(
        page.replace("BLEU .1f", "mean(BLEU) .2f"), folder
    )


def test_a_row_without_a_record_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="0 records match system=mocha k=3"):
        figures.fill(PAGE.format(0, 0).replace("wait_k", "mocha"), folder)


def test_a_key_is_repeated_from_above_and_may_be_a_part_of_a_name(folder: Path) -> None:
    page = """<!-- data.csv BLEU=8* | system="{}*" | k= | BLEU .2f k=5 | -->
| | k | | remark |
|---|---|---|---|
| `wait` | 5 | 0 | |
| | 5.0 | 0 | |
"""
    assert figures.fill(page, folder).count("| 81.92 | |") == 2


def test_a_row_of_another_width_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="2 columns in the comment, 3 in"):
        figures.fill(PAGE.replace(" | -->", " -->"), folder)
