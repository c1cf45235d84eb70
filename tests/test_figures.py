"""The tables of figures in the documentation are those of the committed data."""

import re
from pathlib import Path

import figures
import pytest

PAGES = figures.pages()
BLOCK = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
ELSEWHERE = re.compile(r"<!-- (?:not measured|published)\b.*-->\n\Z")
VERSION = re.compile(r"\d{4}-\d{2}-\d{2}, commit\s[0-9a-f]{7}\b")
DATA = "system,k,BLEU\nwait_k,3,69.24\nwait_k,5,81.92\nsoft,,99.79\n"
PAGE = """<!-- data.csv | system= | BLEU .1f | -->
| | BLEU | |
|---|---|---|
| `wait_k` k=3 | {} | as published: 70.0 |
| `soft`, the whole sentence first | {} | |
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data.csv").write_text(DATA)
    return tmp_path


def figure_in(text: str) -> bool:
    """Whether there is a digit outside code."""
    return bool(re.search(r"\d", re.sub(r"`[^`]*`", "", text)))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(figures.ROOT)))
def test_every_figure_of_a_page_is_that_of_its_data(path):
    text = path.read_text(encoding="utf-8")
    tables = [*figures.TABLE.finditer(text)]
    assert figures.fill(text, path.parent) == text
    filled = sum(len(figures.COMMENT.findall(table["comments"])) for table in tables)
    assert len(re.findall(r"<!-- [\w./-]+\.(?:csv|json)", text)) == filled, "no table below"
    starts = {table.start("table") for table in tables}
    for block in BLOCK.finditer(text):
        if figure_in(block[0].split("\n", 2)[2]) and not ELSEWHERE.search(text[: block.start()]):
            assert block.start() in starts, f"no source above\n{block[0]}"
    for table in tables:
        comments = figures.COMMENT.findall(table["comments"])
        columns = [*zip(*(figures.parse_comment(text)[2] for text in comments), strict=True)]
        for line in table["table"].splitlines()[2:]:
            for cell, kinds in zip(figures.cells_of(line), columns, strict=True):
                key = any(isinstance(kind, figures.Condition) for kind in kinds)
                number = any(kinds) and figures.NUMBER.fullmatch(cell.strip())
                assert key or number or not figure_in(cell), f"{cell!r} in {line!r}"
    sources = re.findall(r"[\w./-]+\.(?:csv|json)\b", "".join(t["comments"] for t in tables))
    if any(not source.endswith("recorded.csv") for source in sources):  # whose rows name it
        assert VERSION.search(text), "the page names no version"


def test_a_figure_comes_from_the_record_that_its_row_names(folder):
    assert figures.fill(PAGE.format(0, 0), folder) == PAGE.format("69.2", "99.8")
    several = PAGE.format(0, 0).replace(" k=3", "")
    mean = several.replace("BLEU .1f", "mean(BLEU) .2f")
    assert "| `wait_k` | 75.58 |" in figures.fill(mean, folder)
    (folder / "data.csv").write_text("system,BLEU,BLEU_low,BLEU_high\nsoft,40,38.5,41.75\n")
    one = "<!-- data.csv | system= | BLEU ±.1f -->\n| | BLEU |\n|---|---|\n| `soft` | 0 |\n"
    filled = figures.fill(one, folder)
    assert "| `soft` | 40.0 ±1.6 |" in filled
    assert figures.fill(filled, folder) == filled
    (folder / "data.csv").write_text(DATA)
    for page, said in (
        (several, "2 records match system=wait_k"),
        (PAGE.format(0, 0).replace("wait_k", "mocha"), "0 records match system=mocha k=3"),
        (PAGE.replace(" | -->", " -->"), "2 columns in the comment, 3 in"),
    ):
        with pytest.raises(ValueError, match=said):
            figures.fill(page, folder)
