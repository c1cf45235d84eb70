"""`simulmt score runs=DIR with=NAME`: scores of the decodings of runs by another program."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from simulmt.decoding.writing import WORDS, Writing
from simulmt.errors import UserError
from simulmt.files import run_directory as files
from simulmt.files.instances import read_instances
from simulmt.options import FolderName, pick
from simulmt.scoring.conventions import CONVENTIONS
from simulmt.scoring.program import check_command, run_scorer
from simulmt.scoring.readers import READERS
from simulmt.scoring.scores import Score, Scores
from simulmt.scoring.segments import DIGITS, SegmentScores, digest, read_segments
from simulmt.system.console import say, watch
from simulmt.system.disk import check_writable, read_record, write_json
from simulmt.system.ending import CONTINUES, handle_signals


@dataclass(frozen=True)
class WithOptions:
    """The options of this form of `conf/score.yaml`, which explains each of them."""

    runs: Path
    with_: FolderName
    command: str
    signature: str
    reader: str | None

    def __post_init__(self) -> None:
        if self.with_ in {name for each in CONVENTIONS.values() for name in each.figures}:
            raise UserError(f"with={self.with_} is one of simulmt's figures: choose another name")


def score_with(options: WithOptions) -> None:
    """Score the decodings below a folder that are not scored yet, and keep the scores beside them.

    Raises:
        UserError: a bad option, no log that can be read, or a program that fails; all finished
            decodings stay scored.
    """
    handle_signals(lambda: CONTINUES)
    name, logs = options.with_, _logs(options.runs)
    reader = pick(READERS, options.reader or (name if name in READERS else "lines"), "reader")
    signature = f"{name}|model:{options.signature}" + "|negated:yes" * reader.negate
    words = check_command(options.command)
    usual = _usual(logs)
    scored = 0
    for path in logs:
        check_writable(path.parent)
    for path in watch(logs, f"scoring with {name}"):
        try:
            log = read_instances(path, _writing(path.parent) or usual)
            if not log:
                raise UserError(f"{path} has no sentence")
        except UserError as error:
            say(f"left out: {error}")
            continue
        place = path.parent / files.SEGMENTS / f"{name}.json"
        found = read_segments(place, log) if place.exists() else None
        before = found is not None and found.score.signature == signature
        if found is None or not before:
            try:
                segments = run_scorer(words, reader, log)
            except UserError as error:
                raise UserError(f"{path.parent}: {error}; {CONTINUES}") from None
            found = SegmentScores(Score(fmean(segments), signature), digest(log), tuple(segments))
            write_json(place, found)
        say(f"{path.parent}: {name} {found.score.form(DIGITS)}{', already scored' * before}")
        scored += 1
    if not scored:
        raise UserError(f"runs={options.runs}: every {files.INSTANCES} was left out")
    say(f"kept beside each log in {files.SEGMENTS}/{name}.json: {signature}")


def _usual(logs: Sequence[Path]) -> Writing:
    """Return what a word is in the first log whose scores say so."""
    for path in logs:
        with suppress(UserError):
            if found := _writing(path.parent):
                return found
    return WORDS


def _writing(folder: Path) -> Writing | None:
    """Return what a word is in the log of a run or of an evaluation; None for another system."""
    paths = [path for name in (files.SCORES, files.EVALUATED) if (path := folder / name).exists()]
    return read_record(paths[0], Scores).writing if paths else None


def _logs(folder: Path) -> list[Path]:
    """Return the logs of sentences below a folder, except those of runs that were set aside.

    Raises:
        UserError: there is none.
    """
    places = (p for p in files.folders_in(folder) if not (p / files.DOCUMENT_SCORES).exists())
    logs = [log for place in places if (log := place / files.INSTANCES).is_file()]
    if not logs:
        raise UserError(
            f"runs={folder} has no {files.INSTANCES} of sentences: choose a folder with runs"
        )
    return logs
