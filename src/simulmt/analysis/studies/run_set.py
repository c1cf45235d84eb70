"""The runs that a study is made from, and the result that the study returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from simulmt.alignment.links import Gold, known_links, read_links
from simulmt.analysis.attention_links import AttentionLinks
from simulmt.analysis.names import row_names
from simulmt.analysis.runs import Run
from simulmt.analysis.style import save
from simulmt.analysis.target import writing
from simulmt.analysis.tidy import write_rows
from simulmt.data.corpus import Corpus, Split
from simulmt.decoding.instance import Instance, read_instances
from simulmt.errors import UserError
from simulmt.run_directory import INSTANCES

_OF_RUN = ("folder", "mechanism", "model", "k", "lambda", "lambda_var", "seed", "data")


@dataclass(frozen=True)
class DecodedTestSet:
    """A test set, decoded again.

    Attributes:
        instances: All sentences, with the positions of the heads.
        heads: The number of heads of each layer that attends to the source;
            `Instance.positions` has the heads in this order.
    """

    instances: Sequence[Instance]
    heads: Sequence[int]


@dataclass(frozen=True)
class RunSet:
    """The runs of a study, and functions that load or compute more from a run directory.

    Attributes:
        folder: The folder that was searched for runs.
        runs: Finished runs, at least one, all tested on the same data.
        read: Returns the data of a run directory, with word alignments where there are any.
        decode: Decodes the test set of a run directory with the run's checkpoint.
        attend: Forces that checkpoint to write the references of the test set, and returns the
            word alignments in its attention.
    """

    folder: Path
    runs: Sequence[Run]
    read: Callable[[Path], Corpus]
    decode: Callable[[Path], DecodedTestSet]
    attend: Callable[[Path], AttentionLinks]

    def place(self, run: Run) -> Path:
        """The directory of a run."""
        return self.folder / run.folder

    @property
    def data(self) -> Corpus:
        """The data that all runs were tested on."""
        return self.read(self.place(self.runs[0]))

    def named(self) -> list[tuple[str, Run]]:
        """Each run with its name in the table of `report.py`."""
        names = row_names(self.runs)
        return [(names[run.folder], run) for run in self.runs]

    def instances(self, run: Run) -> list[Instance]:
        """Return the decoded test set, in words.

        Raises:
            UserError: `instances.log` is missing, damaged or empty.
        """
        path = self.place(run) / INSTANCES
        instances = read_instances(path)
        if not instances:
            raise UserError(f"{path} has no sentence; write it anew: train the run again")
        return instances

    def instances_of(self, run: Run, split: Split) -> list[Instance]:
        """Return the decoded test set, after a check that its text is that of the split.

        Raises:
            UserError: `instances.log` is missing, damaged, empty or of another text.
        """
        instances = self.instances(run)
        for instance in instances:
            i, pair = instance.index, (instance.source, instance.reference)
            if not 0 <= i < len(split) or pair != (split.sources[i], split.targets[i]):
                raise UserError(
                    f"{self.place(run)}: sentence {i + 1} of {INSTANCES} is not that of the "
                    "test set that the configuration describes; decode again with this version"
                )
        return instances


@dataclass(frozen=True)
class Result:
    """A figure, and its points as the rows of a tidy CSV, all with the same columns."""

    figure: Figure
    rows: Sequence[Mapping[str, object]]


def gold_links(split: Split, file: str | None) -> list[Gold] | None:
    """Return the word alignments of a file, or else those of the data; None if there are none.

    Raises:
        UserError: the links of the file are not of this split.
    """
    if file is not None:
        return read_links(Path(file), split.sources, split.targets)
    return None if split.links is None else [known_links(links) for links in split.links]


def run_columns(name: str, run: Run) -> dict[str, object]:
    """Return the columns that identify the run of a row."""
    row = run.row()
    return {"name": name, **{column: row[column] for column in _OF_RUN}}


def write_result(result: Result, folder: Path, name: str) -> list[Path]:
    """Write NAME.png, NAME.svg and NAME.csv, the same bytes for the same runs.

    Returns:
        The three paths.

    Raises:
        UserError: the folder cannot be written.
    """
    png, svg, table = (folder / f"{name}{suffix}" for suffix in (".png", ".svg", ".csv"))
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        save(result.figure, [png, svg])
        return [png, svg, write_rows(result.rows, table)]
