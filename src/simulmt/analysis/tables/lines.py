"""The lines of a report: which runs share a line, and what the user calls it."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from simulmt.analysis.runs.run import Run
from simulmt.analysis.tables.names import differing, line_names, run_names
from simulmt.analysis.tables.titles import title
from simulmt.errors import UserError
from simulmt.options import convert, pick


@dataclass(frozen=True)
class ReportLines:
    """The lines of a report.

    Attributes:
        keys: The name of each run's line in CSV files, by folder.
        titles: The same in pictures, with the field's names or the user's own.
        own: The user's own names of lines, by the names that the report gives.
        names: The name of each run, by folder, for tables that people read.
    """

    keys: Mapping[str, str]
    titles: Mapping[str, str]
    own: Mapping[str, str]
    names: Mapping[str, str]


def report_lines(
    runs: Sequence[Run], keys: Sequence[str], file: Path | None, published: Collection[str]
) -> ReportLines:
    """Return the lines of a report.

    Args:
        runs: All runs, and other systems.
        keys: The options that separate lines; none for all that affect the training.
        file: The user's own names of lines.
        published: The names of the published lines.

    Raises:
        UserError: an option that no run has, or that separates no lines; a file that cannot be
            read, or that names an unknown line; two lines with the same name.
    """
    trained = [run for run in runs if not run.foreign]
    for key in keys:
        if key == "seed" or not any(key in run.options for run in trained):
            known = ", ".join(key for key in differing(trained) if key != "seed") or "–"
            raise UserError(f"line has {key!r}; choose options in which runs differ: {known}")
    plain, titles = line_names(runs, keys), line_names(runs, keys, show=title)
    taken = {name for r in trained for name in (r.folder, plain[r.folder], titles[r.folder])}
    if twice := [run.mechanism for run in runs if run.foreign and run.mechanism in taken]:
        raise UserError(f"others: a run has the name {twice[0]!r}, too; choose another")
    lines = dict.fromkeys((*titles.values(), *published))
    own = {} if file is None else _read_labels(file)
    for name in own:
        pick(lines, name, f"labels={file}: a line")
    (twin, times), *_ = Counter(own.get(name, name) for name in lines).most_common(1)
    if times > 1:
        raise UserError(f"labels={file}: {times} lines have the name {twin!r}; give each its own")
    usual = line_names(runs, show=title)
    names = run_names(runs, {folder: own.get(name, name) for folder, name in usual.items()})
    shown = {folder: own.get(name, name) for folder, name in titles.items()}
    return ReportLines(plain, shown, own, names)


def _read_labels(file: Path) -> dict[str, str]:
    """Return the user's own names of lines, by the names that the report gives."""
    try:
        return convert(yaml.safe_load(file.read_bytes()), dict[str, str])
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise UserError(f"labels={file} cannot be read ({why}); it needs lines OLD: NEW") from None
