"""Tables of scores for the terminal."""

from collections.abc import Iterable, Mapping, Sequence

from rich.table import Column, Table
from rich.text import Text

from simulmt.analysis.runs.run import Row
from simulmt.latency import ADDED
from simulmt.scoring.conventions import CONVENTIONS, UNITS
from simulmt.scoring.scores import Figures, Scores
from simulmt.scoring.segments import DIGITS

_PAPER = ("BLEU", "chrF", "AL", "DAL", "AP", "LAAL")


def score_table(
    rows: Mapping[str, Scores],
    convention: str = "paper",
    unit: str = "word",
    scored: Mapping[str, Figures] | None = None,
) -> Table:
    """Return a table with a row for each name: quality and latency in a unit.

    If all rows have the same oracle, it is the last row: the latency of the reference written as
    early as its word alignment allows, which is known in words alone. The caption has the
    signatures if they are the same in all rows.

    Args:
        rows: Scores by name, at least one.
        convention: A name of `CONVENTIONS`; `paper` also shows DAL in the other unit.
        unit: `word` or `subword` for `paper`; every other convention has a single unit.
        scored: Scores by other programs, by the same names; they stand after BLEU.
    """
    names = CONVENTIONS[convention].figures
    figures = [scores[convention, unit] for scores in rows.values()]
    if convention == "paper":
        second = next(name for name in UNITS if name != unit)
        names = (*_PAPER, *ADDED, f"DAL {second}")
        dals = [scores["paper", second]["DAL"] for scores in rows.values()]
        figures = [{**f, names[-1]: dal} for f, dal in zip(figures, dals, strict=True)]
    more = scored or {name: {} for name in rows}
    figures = [{**own, **more[name]} for own, name in zip(figures, rows, strict=True)]
    metrics = dict.fromkeys(metric for each in more.values() for metric in each)
    digits = {"BLEU": 2} | dict.fromkeys(metrics, DIGITS) | {n: 2 + (n == "AP") for n in names}
    heads = [Column("", overflow="fold"), *(Column(name, justify="right") for name in digits)]
    table = Table(*heads, caption=_caption(rows, figures, unit, metrics), caption_justify="left")
    for name, own in zip(rows, figures, strict=True):
        table.add_row(Text(name), *_cells(own, digits))
    oracle, *others = [scores.oracle.get(unit) for scores in rows.values()]
    if oracle and all(other == oracle for other in others):
        table.add_section()
        table.add_row("oracle", *_cells(oracle, digits))
    return table


def selection_table(rows: Sequence[Row]) -> Table:
    """Return the table of the selected runs, from rows with a column `range`, at least one."""
    figures = [key for key in rows[0] if key.startswith(("dev_", "test_"))]
    heads = [Column(key.replace("_", " "), justify="right") for key in figures]
    table = Table("system", "range", "run", Column("update", justify="right"), *heads)
    for row in rows:
        cells = [str(row["step"]), *(f"{row[k]:.2f}" for k in figures)] if row["run"] else []
        table.add_row(row["system"], row["range"], Text(row["run"] or "no run"), *cells)
    return table


def _cells(figures: Figures, digits: Mapping[str, int]) -> list[str]:
    """Return the cells: empty for an unknown figure, a dash for one without a sentence."""
    return [figures[name].form(n) if name in figures else "" for name, n in digits.items()]


def _caption(
    rows: Mapping[str, Scores], figures: Sequence[Figures], unit: str, metrics: Iterable[str]
) -> Text:
    lines = [] if unit == "word" else ["latency in subwords"]
    for name, of in rows.items():
        empty = f"{name}: {of.empty} of {of.sentences} predictions are empty, not in latency"
        lines += [empty] * (of.empty > 0)
    signatures = {f"{row['BLEU'].signature}\n{row['AL'].signature}" for row in figures}
    lines += list(signatures) * (len(signatures) == 1)
    lines += sorted({row[name].signature for name in metrics for row in figures if name in row})
    return Text("\n".join(lines))
