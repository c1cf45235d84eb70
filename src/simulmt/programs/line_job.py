"""A job that translates lines; it survives kills and detects corrupt files."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from simulmt.data.store import digest, digest_of_file
from simulmt.errors import UserError
from simulmt.options import Config
from simulmt.system.console import say, watch
from simulmt.system.disk import read_json, read_record, replacing, write_json, writing
from simulmt.system.ending import CONTINUES
from simulmt.system.lock import alone

_JOB = "job.json"


@dataclass(frozen=True)
class _Block:
    """A file with the translations of a block, and a digest of them, of their job and number."""

    sha256: str
    lines: list[str]


@dataclass(frozen=True)
class LineJob:
    """Lines to translate in blocks, by any number of processes and in any number of attempts.

    Each translated block is a file, written whole. The finished texts are moved to their places, a
    record of them is written, and the folder is removed.

    Attributes:
        place: The file or folder that the user named, for messages.
        record: The file that is written last.
        folder: The folder of the unfinished job, on the file system of `place`.
        job: Whatever decides the translations, the block included.
        lines: The lines.
        block: The number of lines in a block.
    """

    place: Path
    record: Path
    folder: Path
    job: Config
    lines: Sequence[str]
    block: int

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return -(-len(self.lines) // self.block)

    def begin(self, taken: bool) -> bool:
        """Begin the job, or check that the same command has begun it; True if it is finished.

        Args:
            taken: True if there is something at the place.

        Raises:
            UserError: something else is there, or the place cannot be written.
        """
        mark = self.folder / _JOB
        with writing(self.place):
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            with alone(self.place):
                if self.record.exists():
                    self._check_finished(read_json(self.record))
                    return True
                if mark.exists():
                    self._check(read_json(mark))
                elif (taken or any(self.folder.glob("[!j]*"))) and not self._begun():
                    raise UserError(
                        f"{self.place if taken else self.folder} was not written by simulmt: "
                        "choose another place"
                    )
                self.folder.mkdir(exist_ok=True)  # a kill may leave it with job.json.*.tmp
                write_json(mark, self.job)
        return False

    def _begun(self) -> bool:
        return len(self._missing(range(self.blocks))) < self.blocks

    def _check(self, there: Config) -> None:
        """Reject a job that differs from the one at the place."""
        changed = [name for name in {**there, **self.job} if there.get(name) != self.job.get(name)]
        if changed:
            was, now = (", ".join(f"{n}={of.get(n)}" for n in changed) for of in (there, self.job))
            raise UserError(
                f"{self.place} was written with {was}, not {now}: repeat the earlier command, or "
                "choose another place"
            )

    def _check_finished(self, there: Config) -> None:
        """Reject a record of another job, or of files that have changed."""
        job, files = there.get("job"), there.get("sha256")
        if not isinstance(job, dict) or not isinstance(files, dict):
            raise UserError(
                f"{self.record} exists, and simulmt did not write it: choose another place"
            )
        self._check(job)
        for name, sha256 in files.items():
            path = self.record.parent / name
            if not path.is_file() or digest_of_file(path) != sha256:
                raise UserError(
                    f"{path} is missing, or has changed since it was written: to translate again, "
                    f"remove {self.place} and {self.record}"
                )

    def translate(
        self, translate: Callable[[list[str]], list[str]], rank: int = 0, world: int = 1
    ) -> None:
        """Translate the missing blocks of one process.

        Args:
            translate: translates the lines of a block.
            rank: the number of the process.
            world: the number of processes.
        """
        mine = range(rank * self.blocks // world, (rank + 1) * self.blocks // world)
        with alone(self.folder / f"rank{rank}"):
            if self.record.exists():  # another process, for which this one waited, has finished
                return
            missing = self._missing(mine)
            if there := len(mine) - len(missing):
                say(f"{there:,} of {len(mine):,} blocks are already translated")
            for number in watch(missing, "translating blocks"):
                lines = translate([*self.lines[number * self.block : (number + 1) * self.block]])
                write_json(self._file(number), _Block(self._digest(number, lines), lines))

    def _file(self, number: int) -> Path:
        return self.folder / f"block-{number:07d}.json"

    def _digest(self, number: int, lines: Sequence[str]) -> str:
        return digest([self.job, number, lines])

    def _read(self, number: int) -> list[str] | None:
        """Return the translations of a block; None if its file is missing or corrupt."""
        with suppress(UserError):
            block = read_record(self._file(number), _Block)
            if block.sha256 == self._digest(number, block.lines):
                return block.lines
        return None

    def _missing(self, numbers: Iterable[int]) -> list[int]:
        return [number for number in numbers if self._read(number) is None]

    def translations(self) -> Iterator[str]:
        """Yield the translations of all lines, once no block is missing.

        Raises:
            UserError: a block cannot be read any more.
        """
        for number in range(self.blocks):
            if (lines := self._read(number)) is None:
                raise UserError(f"{self._file(number)} cannot be read any more; {CONTINUES}")
            yield from lines

    def publish(self, texts: Mapping[Path, Iterable[str]], facts: Config) -> int:
        """Move the finished texts to their places, write the record, and remove the folder.

        Args:
            texts: the lines of each file.
            facts: what the record holds beside the job and the digests of the files.

        Returns:
            The number of blocks that are missing, because other processes translate them.

        Raises:
            UserError: something else is at one of the places; nothing is lost.
        """
        with alone(self.place):
            if not self.record.exists():
                if missing := self._missing(range(self.blocks)):
                    return len(missing)
                sha256 = {path.name: self._write(path, lines) for path, lines in texts.items()}
                empty = sum(not line for line in self.translations())
                made = self.folder / f"text.{self.record.name}"
                write_json(made, {"job": self.job, "sha256": sha256, "empty": empty, **facts})
                made.replace(self.record)
            with suppress(OSError):  # files of somebody else stay, and with them the folder
                for pattern in ("block-*", ".rank*.lock", "text.*", f"{_JOB}*"):
                    for path in self.folder.glob(pattern):
                        path.unlink()
                self.folder.rmdir()
        return 0

    def _write(self, path: Path, lines: Iterable[str]) -> str:
        """Write a file beside its place, move it there, and return its SHA-256."""
        made = self.folder / f"text.{path.name}"
        with replacing(made) as unfinished, unfinished.open("wb") as file:
            file.writelines(f"{line}\n".encode() for line in lines)
        sha256 = digest_of_file(made)
        if path.exists() and not (path.is_file() and digest_of_file(path) == sha256):
            raise UserError(
                f"{path} exists, and this command did not write it: move it away; {CONTINUES}"
            )
        with writing(path):
            made.replace(path)
        return sha256
