"""Fills tables in Markdown with figures from committed CSV and JSON files.

A comment directly above a table names a file, relative to the page, and the content of each column:

    <!-- curves.csv | mechanism= | BLEU .1f | DAL_word .2f | -->
    | | BLEU | DAL | remark |
    |---|---|---|---|
    | `milk` lambda=0.2 | 100.0 | 4.64 | the best of its line |

A part `FIELD=` marks a key: the row shows the record whose FIELD equals the cell, or the `code` in
the cell if there is any. Additional `FIELD=VALUE` in the cell narrow the choice. `FIELD=PATTERN`
replaces `{}` by the cell, and `*` matches anything. An empty key repeats the key above.
A part `FIELD FORMAT [FIELD=VALUE ...]` fills the column; `mean(FIELD)` is the mean of several
records, and a format such as `±.1f` adds half the width of the interval from FIELD_low to
FIELD_high. Conditions after the file's name apply to all rows. Only cells that contain a number are
filled, so start a new row with zeros. A comment may name several files, whose records are joined. A
table may have several comments.

`delta` also stands for the field `mechanism.delta`, and for an option in `decoding`.

Every table with a figure has such a comment, or a comment that names another source:

    <!-- published: Ma et al. 2020, Table 2 -->
    <!-- not measured -->

    python docs/figures.py      # rewrites README.md, docs and experiments
"""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).parents[1]
COMMENT = re.compile(r"<!-- ([\w./-]+\.(?:csv|json)\b.*?)-->\n", re.DOTALL)
TABLE = re.compile(
    rf"^(?P<comments>(?:{COMMENT.pattern})+)(?P<table>(?:\|[^\n]*\n)+)", re.DOTALL | re.MULTILINE
)
NUMBER = re.compile(r"-?[\d,]+(\.\d+)?( ±\d+(\.\d+)?)?")

Record = Mapping[str, str]


@dataclass(frozen=True)
class Condition:
    """A field and the pattern that its value must match; `{}` stands for the row's key."""

    field: str
    pattern: str

    @classmethod
    def parse(cls, text: str) -> Condition:
        """The condition written as `FIELD=PATTERN`; without a pattern, the key itself."""
        field, _, pattern = text.partition("=")
        return cls(field, pattern or "{}")

    def holds(self, record: Record) -> bool:
        """True if the record's value equals the pattern as a number, or matches it as text."""
        value = record.get(self.field, "")
        try:
            return float(value) == float(self.pattern)
        except ValueError:
            return fnmatchcase(value.lower(), self.pattern.lower())


@dataclass(frozen=True)
class Figure:
    """A column of figures: which field of the records to show, and how."""

    field: str
    format: str
    conditions: tuple[Condition, ...]

    def text(self, records: Iterable[Record], conditions: tuple[Condition, ...]) -> str:
        """The figure of the one record, or the mean of the records, that the conditions choose.

        Raises:
            ValueError: if no record matches, or several and the column is no mean.
        """
        conditions += self.conditions
        matches = [record for record in records if all(c.holds(record) for c in conditions)]
        mean = re.fullmatch(r"mean\((.+)\)", self.field)
        if not matches or (len(matches) > 1 and not mean):
            wanted = " ".join(f"{c.field}={c.pattern}" for c in conditions)
            raise ValueError(f"{len(matches)} records match {wanted}; one should")
        field, form = mean[1] if mean else self.field, self.format.removeprefix("±")
        text = format(fmean(float(record[field]) for record in matches), form)
        if form == self.format:
            return text
        [record] = matches
        half = (float(record[f"{field}_high"]) - float(record[f"{field}_low"])) / 2
        return f"{text} ±{format(half, form)}"


Column = Figure | Condition | None
"""What a comment says of a column: figures, a key, or nothing."""


def read(path: Path) -> list[Record]:
    """The rows of a CSV file, or the `results` of a JSON file, all values as text."""
    if path.suffix == ".json":
        results = json.loads(path.read_text(encoding="utf-8"))["results"]
        return [{key: str(value) for key, value in result.items()} for result in results]
    with path.open(encoding="utf-8", newline="") as file:
        return [with_short_names(row) for row in csv.DictReader(file)]


def with_short_names(row: Record) -> Record:
    """The row with the options of its mechanism and of its decoding added under short names."""
    short = {name.removeprefix("mechanism."): value for name, value in row.items()}
    decoded = dict(re.findall(r"(\S+)=(\S+)", row.get("decoding", "")))
    return {**short, **row, **decoded}


def parse_comment(text: str) -> tuple[list[str], tuple[Condition, ...], list[Column]]:
    """The files of a comment, the conditions for all rows, and the columns."""
    first, *columns = text.split("|")
    words = shlex.split(first)
    always = tuple(Condition.parse(word) for word in words if "=" in word)
    return [word for word in words if "=" not in word], always, [*map(parse_column, columns)]


def parse_column(text: str) -> Column:
    """The figure or the condition of a column, from the part of a comment between two bars."""
    words = shlex.split(text)
    if not words:
        return None
    if "=" in words[0]:
        return Condition.parse(words[0])
    return Figure(words[0], words[1], tuple(map(Condition.parse, words[2:])))


def row_conditions(keys: Iterable[tuple[Condition, str]]) -> tuple[Condition, ...]:
    """The conditions that the key cells of a row state."""
    conditions = []
    for key, cell in keys:
        code = re.search(r"`(.+?)`", cell)
        value = code[1] if code else cell.strip()
        conditions.append(Condition(key.field, key.pattern.replace("{}", value)))
        rest = re.sub(r"`.+?`", "", cell) if code else ""
        conditions += map(Condition.parse, re.findall(r"[\w.]+=[\w.]+", rest))
    return tuple(conditions)


def cells_of(line: str) -> list[str]:
    """The cells of a table's line."""
    return line.removeprefix("|").removesuffix("|").split("|")


def fill_table(
    table: str, columns: list[Column], records: list[Record], always: tuple[Condition, ...]
) -> str:
    """The table with the figures of one comment; the conditions `always` apply to all rows."""
    keys = {i: column for i, column in enumerate(columns) if isinstance(column, Condition)}
    lines, above = table.splitlines(), dict[int, str]()
    for number, line in enumerate(lines[2:], start=2):
        cells = cells_of(line)
        if len(cells) != len(columns):
            raise ValueError(f"{len(columns)} columns in the comment, {len(cells)} in {line!r}")
        above |= {i: cells[i] for i in keys if cells[i].strip()}
        conditions = always + row_conditions((key, above[i]) for i, key in keys.items())
        for i, column in enumerate(columns):
            if isinstance(column, Figure) and NUMBER.fullmatch(cells[i].strip()):
                cells[i] = f" {column.text(records, conditions)} "
        lines[number] = f"|{'|'.join(cells)}|"
    return "\n".join(lines) + "\n"


def fill(text: str, folder: Path) -> str:
    """A page's text with the figures of its tables, from the files below `folder`.

    Raises:
        ValueError: if a row matches no record, or several, with the row and the file's name.
    """

    def replace(match: re.Match[str]) -> str:
        comments, table = match["comments"], match["table"]
        for comment in COMMENT.findall(comments):
            names, always, columns = parse_comment(comment)
            records = [record for name in names for record in read(folder / name)]
            try:
                table = fill_table(table, columns, records, always)
            except ValueError as error:
                raise ValueError(f"{' '.join(names)}: {error}") from error
        return comments + table

    return TABLE.sub(replace, text)


def pages() -> list[Path]:
    """The pages of the repository that may hold tables of figures."""
    return [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("experiments/**/README.md")]


if __name__ == "__main__":
    for page in pages():
        before = page.read_text(encoding="utf-8")
        if (after := fill(before, page.parent)) != before:
            page.write_text(after, encoding="utf-8")
            print(page.relative_to(ROOT))
