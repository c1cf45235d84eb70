"""The runs that a study is made from, and the result that the study returns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from matplotlib.figure import Figure

from simulmt.alignment.links import Gold, Links, known_links, read_links
from simulmt.analysis.figures.panels import save
from simulmt.analysis.page import REMEDY, write_rows
from simulmt.analysis.runs.run import Row, Run
from simulmt.analysis.tables.names import run_names
from simulmt.data.corpus import Corpus, Split
from simulmt.decoding.instance import Instance
from simulmt.errors import UserError
from simulmt.files.instances import read_instances
from simulmt.files.run_directory import INSTANCES
from simulmt.system.disk import writing

_OF_RUN = ("name", "folder", "mechanism", "model", "k", "lambda", "lambda_var", "seed", "data")


@dataclass(frozen=True)
class DecodedTestSet:
    """A test set, decoded again.

    Attributes:
        instances: All sentences, with the positions of the heads.
        heads: The number of heads of each layer that attends to the source, in the order of
            `Instance.positions`; none if a clock decides for all heads.
    """

    instances: Sequence[Instance]
    heads: Sequence[int]


class LinkSource(NamedTuple):
    """The part of a model that gives links; layer and head count from 1, 0 means all."""

    what: str
    """`attention`, or `position`: where a head stops."""
    layer: int
    head: int


AttentionLinks: TypeAlias = Mapping[LinkSource, Sequence[Links]]
"""The links of each sentence, in their order, for each source."""


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
        force: Forces that checkpoint in the same way, and returns the references with the delays at
            which it writes them.
        link: Returns the word alignments of sentence pairs in the attention of a model.
    """

    folder: Path
    runs: Sequence[Run]
    read: Callable[[Path], Corpus]
    decode: Callable[[Path], DecodedTestSet]
    attend: Callable[[Path], AttentionLinks]
    force: Callable[[Path], Sequence[Instance]]
    link: Callable[[Path, Sequence[tuple[str, str]]], Sequence[Links]]

    @property
    def data(self) -> Corpus:
        """The data that all runs were tested on."""
        return self.read(self.folder / self.runs[0].home)

    def named(self) -> list[tuple[Row, Run]]:
        """Each run with the columns that identify it; `name` is that in `report.py`'s table."""
        names = run_names(self.runs)
        rows = [{"name": names[run.folder], **run.row()} for run in self.runs]
        named = [{column: row[column] for column in _OF_RUN} for row in rows]
        return [*zip(named, self.runs, strict=True)]

    def instances(self, run: Run, split: Split | None = None) -> list[Instance]:
        """Return the decoded test set, in words; with a split, check that its text is the split's.

        Raises:
            UserError: `instances.log` is missing, corrupt or of another text.
        """
        instances = read_instances(run.path / INSTANCES, run.scores.writing)
        known = {*enumerate(zip(split.sources, split.targets, strict=True))} if split else set()
        for one in instances if split else ():
            if (one.index, (one.source, one.reference)) not in known:
                where = f"{run.path}: sentence {one.index + 1} of {INSTANCES}"
                raise UserError(f"{where} is not in the run's test set; decode again")
        return instances


@dataclass(frozen=True)
class Result:
    """A figure, and its points as the rows of a tidy CSV, all with the same columns."""

    figure: Figure
    rows: Sequence[Row]


def gold_links(split: Split, file: str | None) -> list[Gold] | None:
    """Return the word alignments of a file, or else those of the data; None if there are none.

    Raises:
        UserError: the links of the file are not of this split.
    """
    if file is not None:
        return read_links(Path(file), split.sources, split.targets)
    return None if split.links is None else [known_links(links) for links in split.links]


def write_result(result: Result, folder: Path, name: str) -> list[Path]:
    """Write NAME.png, NAME.svg and NAME.csv, the same bytes for the same runs.

    Returns:
        The three paths.

    Raises:
        UserError: the folder cannot be written.
    """
    pictures = [folder / f"{name}.png", folder / f"{name}.svg"]
    with writing(folder, REMEDY):
        folder.mkdir(parents=True, exist_ok=True)
        save(result.figure, pictures)
        return [*pictures, write_rows(result.rows, folder / f"{name}.csv")]
