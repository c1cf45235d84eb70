"""`simulmt score`: quality and latency of translated documents, from their log."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, cast

from annotated_types import Ge, Le
from omegaconf import DictConfig
from rich.table import Column, Table
from rich.text import Text

from simulmt.decoding.stream_instance import StreamInstance
from simulmt.errors import UserError
from simulmt.files.run_directory import EVALUATED
from simulmt.files.streams import read_streams
from simulmt.options import construct, pick
from simulmt.programs.plain import plain
from simulmt.scoring.conventions import STREAM_CONVENTIONS
from simulmt.scoring.reference_document import (
    Documents,
    Segment,
    read_documents,
    read_segmentation,
)
from simulmt.scoring.stream_score import score_streams
from simulmt.system.console import console, say
from simulmt.system.disk import check_writable, read_json, write_json


@dataclass(frozen=True)
class ScoreOptions:
    """The options of `conf/score.yaml`, which explains each of them."""

    log: Path
    references: Path
    source: Path | None
    documents: Path | None
    segmentation: Path | None
    convention: list[str]
    s: Annotated[float, Ge(0), Le(1)]
    language: str | None
    to: Path | None
    plugins: list[str]

    def __post_init__(self) -> None:
        for name in self.convention:
            pick(STREAM_CONVENTIONS, name, "convention")
        given = [file is not None for file in (self.source, self.documents, self.segmentation)]
        if given not in ([True, True, False], [False, False, True]):
            raise UserError(
                f"source={self.source}, documents={self.documents}, segmentation="
                f"{self.segmentation}: give source and documents, or only segmentation"
            )


def score(cfg: DictConfig) -> None:
    """Score the documents of a log; print the scores, and write them.

    Raises:
        UserError: a mistake that a user can correct.
    """
    options = construct(ScoreOptions, plain(cfg), "")
    place = (options.to or options.log.with_name(EVALUATED)).absolute()
    check_writable(place.parent)
    if place.exists() and "documents" not in read_json(place):
        raise UserError(f"{place} has the scores of sentences: choose another file with to=FILE")
    if options.source and options.documents:
        documents = read_documents(options.references, options.source, options.documents)
    else:
        documents = read_segmentation(options.references, cast(Path, options.segmentation))
    unit = "ms" if options.segmentation else "word"
    pairs = matched(options.log, documents, unit)
    scores = score_streams(pairs, options.convention, unit, options.s, options.language)
    place.parent.mkdir(parents=True, exist_ok=True)
    write_json(place, scores)
    table = Table("convention", "", Column("", justify="right"), "signature")
    for name, figures in scores.figures.items():
        for figure, found in figures.items():
            digits = 3 if "AP" in figure else 2
            table.add_row(*map(Text, (name, figure, found.form(digits), found.signature)))
    console.print(table)
    say(f"{scores.documents} documents, {scores.segments} segments; written: {place}")


def matched(
    log: Path, documents: Documents, unit: str
) -> list[tuple[Sequence[Segment], StreamInstance]]:
    """Return the segments of each document with its translation in a log.

    Raises:
        UserError: the log has other documents or some of them twice, or is in another unit.
    """
    found = dict[str, StreamInstance]()
    for instance in read_streams(log):
        path = PurePath(instance.source)
        names = [instance.source, *([path.name, path.stem] if unit == "ms" else [])]
        name = next((name for name in names if name in documents), None)
        if name is None or name in found:
            what = f"is there twice, as {name!r}" if name else "is not in the references"
            raise UserError(f"log={log}: document {instance.source!r} {what}; decode again")
        found[name] = instance
        end = documents[name][-1].end
        if unit == "word" and max(instance.delays, default=0) > end:
            raise UserError(
                f"log={log}: document {name!r} has {end} source words, but a delay of "
                f"{max(instance.delays)}: give segmentation=FILE for a log in milliseconds"
            )
    if missing := documents.keys() - found:
        raise UserError(
            f"log={log} lacks {len(missing)} of {len(documents)} documents, such as "
            f"{min(missing)!r}: decode them, or remove their lines from the references"
        )
    return [(segments, found[name]) for name, segments in documents.items()]
