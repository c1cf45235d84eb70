"""The folder that `simulmt distil` fills: blocks of translations, which become a corpus.

Any number of processes may work in one folder, on one machine or several. A process claims a block
by a lock, which ends with the process, and writes the block whole or not at all. Once all blocks
are there, one process joins them. So a folder survives any kill, and the same command goes on.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path

from filelock import FileLock, Timeout

from simulmt.data.corpus import Split
from simulmt.disk import writing
from simulmt.errors import UserError
from simulmt.run_directory import Provenance, read_record, replacing, write_json

RECORD = "distil.json"
"""The last file of a folder: a folder that has it is finished."""
_PARTS, _JOB = ".parts", "job.json"
_LF = b"\n"
LOCK = ".lock"
_NO_LOCKS = (OSError, NotImplementedError)
"""What a file system without locks raises."""


@dataclass(frozen=True)
class Job:
    """What the text of a distilled corpus depends on, but for the machine.

    Attributes:
        teacher: SHA-256 of the teacher's model, subwords and weights.
        kind: `sequence` or `monotonic`.
        k: Source tokens at the first target token; None for `sequence`.
        beam: The beam.
        length_penalty: The length penalty.
        batch_tokens: The most tokens of a batch, which decides between hypotheses that score the
            same up to rounding.
        block: Sentences of a block.
        pairs: Sentences in all.
        source: SHA-256 of the source text.
        references: SHA-256 of the references that follow; None if there are none.
        languages: Those of source and target.
    """

    teacher: str
    kind: str
    k: int | None
    beam: int
    length_penalty: float
    batch_tokens: int
    block: int
    pairs: int
    source: str
    references: str | None
    languages: list[str]


@dataclass(frozen=True)
class Record:
    """What a finished folder holds.

    Attributes:
        job: What decided its text.
        checkpoint: The teacher.
        text: The name of the corpus, or the source file, that was translated.
        empty: The number of empty hypotheses.
        provenance: The command that finished it, the versions and the machine.
    """

    job: Job
    checkpoint: str
    text: str
    empty: int
    provenance: Provenance


@dataclass(frozen=True)
class Distilled:
    """A folder of a distilled corpus, finished or not."""

    folder: Path

    @property
    def finished(self) -> bool:
        """Whether the corpus is there."""
        return (self.folder / RECORD).is_file()

    def check(self) -> None:
        """Refuse a folder of something else.

        Raises:
            UserError: the folder is none, or holds what this program did not write.
        """
        folder, ours = self.folder, {RECORD, _PARTS}
        if folder.exists() and not folder.is_dir():
            raise UserError(f"to={folder} is no folder; give a new one")
        if folder.is_dir() and (names := {p.name for p in folder.iterdir()}) and not names & ours:
            raise UserError(
                f"to={folder} holds something else ({min(names)}); give a new or empty folder"
            )

    def begin(self, job: Job) -> None:
        """Begin or go on with a job.

        Raises:
            UserError: the folder holds another job, or cannot be written.
        """
        with writing(self.folder):
            (self.folder / _PARTS).mkdir(parents=True, exist_ok=True)
        with self._locked():
            if self.finished:
                there = read_record(self.folder / RECORD, Record).job
            elif (file := self.folder / _PARTS / _JOB).exists():
                there = read_record(file, Job)
            else:
                write_json(file, job)
                return
        names = (field.name for field in fields(job))
        values = ((name, getattr(there, name), getattr(job, name)) for name in names)
        if differences := [f"{name} is {a}, not {b}" for name, a, b in values if a != b]:
            raise UserError(
                f"to={self.folder} holds the work of another command ({'; '.join(differences)}): "
                "repeat that command, or give a new folder"
            )

    def undone(self, blocks: int) -> list[int]:
        """Return the blocks that are still to be translated, of so many."""
        there = {path.name for path in (self.folder / _PARTS).glob("[0-9]*")}
        return [] if self.finished else [n for n in range(blocks) if _name(n) not in there]

    def is_done(self, number: int) -> bool:
        """Return whether a block is translated."""
        return (self.folder / _PARTS / _name(number)).exists() or self.finished

    @contextmanager
    def claim(self, number: int) -> Iterator[bool]:
        """Yield whether the caller is to translate a block: no other process does or has done."""
        lock = FileLock(self.folder / _PARTS / f".{number}.lock")
        if self.is_done(number):
            yield False
            return
        try:
            lock.acquire(timeout=0)
        except Timeout:
            yield False
            return
        except _NO_LOCKS:  # then processes may do the same work
            pass
        try:
            yield not self.is_done(number)
        finally:
            lock.release()

    def is_free(self, number: int) -> bool:
        """Return whether a block is to be translated, and no process is about it."""
        with self.claim(number) as claimed:
            return claimed

    def write(self, number: int, lines: Sequence[str]) -> None:
        """Write the translations of a block.

        Raises:
            UserError: the disk does not take them.
        """
        with replacing(self.folder / _PARTS / _name(number)) as unfinished:
            _write(unfinished, lines)

    def join(self, split: Split, others: Mapping[str, Split], record: Record) -> Record:
        """Write the corpus, unless another process has, and remove the blocks.

        Args:
            split: the source text, with the references if they follow the hypotheses.
            others: the splits that go beside it, by name.
            record: the record, which lacks the number of empty hypotheses.

        Raises:
            UserError: the disk does not take it, or a block is damaged.
        """
        with self._locked():
            if not self.finished:
                self._join(split, others, record)
            shutil.rmtree(self.folder / _PARTS, ignore_errors=True)
        (self.folder / LOCK).unlink(missing_ok=True)
        return read_record(self.folder / RECORD, Record)

    def _join(self, split: Split, others: Mapping[str, Split], record: Record) -> None:
        for left in self.folder.glob("*.tmp"):  # by a process that was killed
            left.unlink(missing_ok=True)
        job = record.job
        source, target = job.languages
        again = 1 if job.references is None else 2
        with replacing(self.folder / f"train.{source}") as unfinished:
            _write(unfinished, *[split.sources] * again)
        with replacing(self.folder / f"train.{target}") as unfinished:
            _write(unfinished, self._hypotheses(job), *[split.targets] * (again - 1))
        for name, other in others.items():
            for language, lines in zip(job.languages, (other.sources, other.targets), strict=True):
                with replacing(self.folder / f"{name}.{language}") as unfinished:
                    _write(unfinished, lines)
        empty = sum(not line for line in self._hypotheses(job))
        write_json(self.folder / RECORD, replace(record, empty=empty))

    def _hypotheses(self, job: Job) -> Iterator[str]:
        """Yield the translations of all blocks, in order."""
        for number, first in enumerate(range(0, job.pairs, job.block)):
            part = self.folder / _PARTS / _name(number)
            content = part.read_bytes()
            if content.count(_LF) != min(job.block, job.pairs - first):
                raise UserError(f"{part} is damaged: remove it, and type the same command again")
            yield from content.decode("utf-8", "replace").split("\n")[:-1]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process alone begin or end the work, where the file system has locks."""
        lock = FileLock(self.folder / LOCK)
        with suppress(*_NO_LOCKS):
            lock.acquire()
        try:
            yield
        finally:
            lock.release()


def _name(number: int) -> str:
    return f"{number:08d}"


def _write(path: Path, *texts: Iterable[str]) -> None:
    """Write the lines of some texts, one after the other."""
    with path.open("wb") as file:
        for lines in texts:
            file.writelines(line.encode("utf-8") + _LF for line in lines)
