"""What a study is made from, and what it gives back."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from simulmt.analysis.looked import Looked
from simulmt.analysis.runs import Run
from simulmt.analysis.style import save
from simulmt.analysis.target import writing
from simulmt.data.corpus import Corpus, Split
from simulmt.decoding.instance import Instance, read_instances
from simulmt.errors import UserError
from simulmt.run_directory import INSTANCES

_ABOUT = ("folder", "mechanism", "model", "k", "lambda", "lambda_var", "seed", "data")


@dataclass(frozen=True)
class Decoded:
    """A test set, decoded anew.

    Attributes:
        instances: Of every sentence, with positions.
        heads: For each layer that asks the source, how many heads it has; `Instance.positions`
            has them in this order.
    """

    instances: Sequence[Instance]
    heads: Sequence[int]


@dataclass(frozen=True)
class Material:
    """What a study is made from.

    Attributes:
        folder: Where the runs were searched.
        runs: Finished, at least one, all tested on the same data.
        read: The data of a run directory, with word alignments where there are any.
        decode: Decodes their test set with the run's checkpoint.
        attend: Makes that checkpoint write the references of the test set, and sees where it looks.
    """

    folder: Path
    runs: Sequence[Run]
    read: Callable[[Path], Corpus]
    decode: Callable[[Path], Decoded]
    attend: Callable[[Path], Looked]

    def place(self, run: Run) -> Path:
        """A run's directory."""
        return self.folder / run.folder

    def instances(self, run: Run) -> list[Instance]:
        """The decoded test set, in words.

        Raises:
            UserError: no file, a damaged one, or one without a sentence.
        """
        path = self.place(run) / INSTANCES
        found = read_instances(path)
        if not found:
            raise UserError(f"{path} has no sentence; write it anew: train the run again")
        return found

    def instances_of(self, run: Run, split: Split) -> list[Instance]:
        """The decoded test set, which is that of the data.

        Raises:
            UserError: as `instances`; or another text was decoded.
        """
        found = self.instances(run)
        for instance in found:
            i, pair = instance.index, (instance.source, instance.reference)
            if not 0 <= i < len(split) or pair != (split.sources[i], split.targets[i]):
                raise UserError(
                    f"{self.place(run)}: sentence {i + 1} of {INSTANCES} is not that of the "
                    "test set that the configuration describes; decode again with this version"
                )
        return found


@dataclass(frozen=True)
class Result:
    """A figure, and its points as the rows of a tidy CSV, all with the same columns."""

    figure: Figure
    rows: Sequence[Mapping[str, Any]]


def about(run: Run) -> dict[str, Any]:
    """The columns that say which run a row is of."""
    row = run.row()
    return {name: row[name] for name in _ABOUT}


def write_result(result: Result, folder: Path, name: str) -> list[Path]:
    """Write NAME.png, NAME.svg and NAME.csv; the same runs give the same bytes.

    Raises:
        UserError: the folder cannot be written.
    """
    png, svg, table = (folder / f"{name}{suffix}" for suffix in (".png", ".svg", ".csv"))
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        save(result.figure, [png, svg])
        with table.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(result.rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(result.rows)
    return [png, svg, table]
