"""The lines of a report's pictures: which runs share a line, and what the line is called."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from simulmt.analysis.runs.run import Run
from simulmt.analysis.tables.names import chosen_lines, differing, row_names, variants
from simulmt.analysis.tables.titles import title
from simulmt.errors import UserError
from simulmt.options import convert, pick


@dataclass(frozen=True)
class Lines:
    """The lines of a report.

    Attributes:
        keys: The name of each run's line in CSV files, by folder.
        titles: The same in pictures, with the field's names or the user's own.
        own: The user's own names of lines, by the names that the report gives.
    """

    keys: Mapping[str, str]
    titles: Mapping[str, str]
    own: Mapping[str, str]

    def row_names(self, runs: Sequence[Run]) -> dict[str, str]:
        """Return a name for each of some runs, by folder, for tables that people read."""
        usual = variants(runs, show=title)
        return row_names(runs, {f: self.own.get(name, name) for f, name in usual.items()})


def find_lines(
    runs: Sequence[Run], keys: Sequence[str], file: Path | None, published: Collection[str]
) -> Lines:
    """Return the lines of a report.

    Args:
        runs: All runs, and other systems.
        keys: The options that separate lines; none for all that affect the training.
        file: The user's own names of lines.
        published: The names of the published lines.

    Raises:
        UserError: an option that no run has, or that separates no lines; a file that cannot be
            read, or that names a line that there is not; two lines with the same name.
    """
    trained = [run for run in runs if not run.foreign]
    known = [key for key in differing(trained) if key != "seed"]
    for key in keys:
        if key == "seed" or not any(key in run.options for run in trained):
            raise UserError(
                f"line has {key!r}; choose options in which runs differ: {', '.join(known) or '–'}"
            )
    plain = chosen_lines(runs, keys) if keys else variants(runs)
    titles = chosen_lines(runs, keys, title) if keys else variants(runs, show=title)
    taken = {name for r in trained for name in (r.folder, plain[r.folder], titles[r.folder])}
    if twice := [run.mechanism for run in runs if run.foreign and run.mechanism in taken]:
        raise UserError(
            f"others has the name {twice[0]!r}, which a line or a folder of the runs has; choose "
            "another name"
        )
    lines = [*dict.fromkeys((*titles.values(), *published))]
    own = {} if file is None else _read_labels(file, lines)
    shown = Counter(own.get(name, name) for name in lines)
    if twice := [name for name, times in shown.items() if times > 1]:
        raise UserError(
            f"labels={file}: several lines would be called {twice[0]!r}; give each its own name"
        )
    return Lines(plain, {folder: own.get(name, name) for folder, name in titles.items()}, own)


def _read_labels(file: Path, lines: Sequence[str]) -> dict[str, str]:
    """Return the user's own names of lines, by the names that the report gives."""
    try:
        labels = convert(yaml.safe_load(file.read_bytes()), dict[str, str])
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise UserError(f"labels={file} cannot be read ({why}); it needs lines OLD: NEW") from None
    for label in labels:
        pick(dict.fromkeys(lines), label, f"labels={file}: a line")
    return labels
