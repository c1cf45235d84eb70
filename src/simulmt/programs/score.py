"""`simulmt score`: quality and latency of translated documents, from their log.

The other form of the verb, `runs=DIR with=NAME`, is `simulmt.programs.score_with`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Annotated, Literal

import yaml
from annotated_types import Ge, Le, MinLen
from omegaconf import DictConfig

from simulmt.data.writing_options import WritingOptions
from simulmt.decoding.stream_instance import StreamInstance
from simulmt.decoding.writing import WORDS, Writing, words_of
from simulmt.errors import UserError
from simulmt.files.instances import read_streams
from simulmt.files.plugins import CONF, HOME
from simulmt.files.simulstream import read_simulstream
from simulmt.options import Config, OneOrMany, asked_of, construct, pick
from simulmt.programs.documents import print_figures
from simulmt.programs.plain import plain
from simulmt.programs.score_with import WithOptions, score_with
from simulmt.scoring.conventions import STREAM_CONVENTIONS, check_bleu
from simulmt.scoring.reference_document import Documents, read_documents, read_segmentation
from simulmt.scoring.stream_score import Pair, score_streams
from simulmt.system.console import say, warn
from simulmt.system.disk import check_writable, read_json, write_json


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(WritingOptions):
    """The options of this form of `conf/score.yaml`, which explains each of them."""

    log: Path
    form: Literal["simuleval", "simulstream"]
    references: Path
    source: Path | None
    documents: Path | None
    segmentation: Path | None
    convention: Annotated[OneOrMany[str], MinLen(1)]
    s: Annotated[float, Ge(0), Le(1)]
    language: str | None
    to: Path | None

    def __post_init__(self) -> None:
        for name in self.convention:
            pick(STREAM_CONVENTIONS, name, "convention")
        words, ms = (self.source, self.documents), self.segmentation
        if (None in words) if ms is None else (words != (None, None)):
            given = f"source={self.source}, documents={self.documents}, segmentation={ms}"
            why = f"{given}: give source and documents, or only segmentation"
            raise UserError(f"{why}; a log of sentences is for simulmt report others=")
        if self.form == "simulstream" and ms is None:
            raise UserError("form=simulstream has times in seconds: give segmentation=FILE")


def score(cfg: DictConfig) -> None:
    """Score documents, or the decodings of runs by another program; print and write the scores.

    Raises:
        UserError: a mistake that a user can correct.
    """
    options = read_options(plain(cfg))
    if isinstance(options, WithOptions):
        score_with(options)
    else:
        score_documents(options)


def read_options(config: Config) -> ScoreOptions | WithOptions:
    """Return the options of the form that a command has.

    Raises:
        UserError: the command mixes the two forms, or an option is wrong.
    """
    usual = yaml.safe_load((HOME / CONF / "score.yaml").read_text(encoding="utf-8"))
    documents, others = map(asked_of, (ScoreOptions, WithOptions))
    given = {name for name, value in config.items() if value != usual.get(name)}
    by_program = bool(given & others.keys())
    if by_program == bool(given & documents.keys()):
        raise UserError(
            "simulmt score has two forms, and the options fit "
            f"{'both' if by_program else 'neither'}: give log=FILE references=FILE "
            "for documents, or runs=DIR with=NAME command=... signature=... for another program"
        )
    if by_program:
        return construct(WithOptions, {k: v for k, v in config.items() if k not in documents}, "")
    return construct(ScoreOptions, {k: v for k, v in config.items() if k not in others}, "")


def score_documents(options: ScoreOptions) -> None:
    """Score the documents of a log; print the scores, and write them.

    Raises:
        UserError: the log and the references do not fit, or the scores cannot be written.
    """
    writing = options.of(options.language or "")
    check_bleu(writing)
    place = (options.to or options.log.with_suffix(".scores.json")).absolute()
    check_writable(place.parent)
    if place.exists() and "figures" in read_json(place):
        raise UserError(f"{place} has the scores of sentences: choose another file with to=FILE")
    if options.segmentation:
        documents = read_segmentation(options.references, options.segmentation, writing)
    elif options.source and options.documents:
        documents = read_documents(options.references, options.source, options.documents, writing)
    unit = "ms" if options.segmentation else "word"
    if options.form == "simulstream":
        instances = read_simulstream(options.log, writing.target)
    else:
        instances = read_streams(options.log)
    pairs = matched(options.log, instances, documents, unit, writing)
    figures = score_streams(pairs, options.convention, unit, options.s, options.language, writing)
    write_json(place, figures)
    print_figures(figures)
    say(f"{len(pairs)} documents; written: {place}")


def matched(
    log: Path,
    instances: Sequence[StreamInstance],
    documents: Documents,
    unit: str,
    writing: Writing = WORDS,
) -> list[Pair]:
    """Return the segments of each document with its translation, which is from `log`.

    Raises:
        UserError: the log has other documents, or is in another unit.
    """
    names = [i.source for i in instances]
    if unit == "ms":  # files, or already names
        files = map(PurePath, names)
        names = [file.name if file.name in documents else file.stem for file in files]
    found = dict(zip(names, instances, strict=True))
    wrong = {
        "has unknown documents": found.keys() - documents.keys(),
        "lacks documents": documents.keys() - found.keys(),
        "has documents twice": {name for name in names if names.count(name) > 1},
    }
    for what, those in wrong.items():
        if those:
            why = f"log={log} {what}, {sorted(those)[:3]!s:.200}; the references have "
            why += f"{[*documents][:3]!s:.200}: give their names as source in the log"
            raise UserError(f"{why}, or report a log of sentences with simulmt report others=")
    for name, instance in found.items():
        if any(later < earlier for earlier, later in pairwise(instance.delays)):
            warn(
                f"log={log}: the delays of {name!r} decrease, but words are written in order: "
                "count delays from the beginning of the document"
            )
        end, latest = documents[name][-1].end, max(instance.delays, default=0)
        if instance.words != words_of(instance.prediction, writing.target):
            counted, remedy = ("words", "[]") if writing.target else ("characters", "[target]")
            why = f"log={log}: the delays of {name!r} are those of {counted}"
            also = "(add source if its words are characters)"
            raise UserError(f"{why}: set characters={remedy} {also}")
        read = len(words_of(instance.text, writing.source))
        if unit == "word" and read not in (0, end):
            counted = writing.of_source()
            why = f"log={log}: the text of {name!r} has {read} {counted}s, and its source= {end}"
            text = "give the text that was translated, such as that without marks"
            raise UserError(f"{why}: {text}, and characters=[source] if its words are characters")
        if unit == "word" and latest > end:
            counted = writing.of_source()
            why = f"log={log}: a delay of {name!r} is {latest}, but its source has {end} {counted}s"
            raise UserError(f"{why}: for a log in milliseconds give segmentation=FILE")
    return [(segments, found[name]) for name, segments in documents.items()]
