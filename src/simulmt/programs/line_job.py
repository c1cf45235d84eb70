"""A job that translates lines, which a kill cannot harm and which corrupt files cannot mislead."""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from simulmt.data.store import digest, digest_of_file
from simulmt.errors import UserError
from simulmt.options import Config
from simulmt.system.console import counted, say
from simulmt.system.disk import read_json, read_record, replacing, write_json, writing
from simulmt.system.ending import CONTINUES
from simulmt.system.lock import alone

_JOB = "job.json"


@dataclass(frozen=True)
class _Begun:
    """The file that marks the folder of a job."""

    sha256: str
    job: Config


@dataclass(frozen=True)
class LineJob:
    """Lines to translate in blocks, by any number of processes and in any number of attempts.

    Each process appends to its own file a record for each block: a digest, the number of the block
    and its translations. A block is translated if there is a record whose digest fits. The finished
    texts are moved to their places, a record of them is written, and the folder is removed.

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
                if begun := self._begun(mark):
                    self._check(begun)
                elif (taken or any(self.folder.glob("[!j]*"))) and not self._found():
                    raise UserError(
                        f"{self.place if taken else self.folder} was not written by simulmt: "
                        "choose another place"
                    )
                self.folder.mkdir(exist_ok=True)  # a kill may leave it with job.json.*.tmp
                write_json(mark, _Begun(digest(self.job), self.job))
        return False

    def _begun(self, mark: Path) -> Config | None:
        """Return the job of a mark; None if the mark is absent or corrupt."""
        with suppress(UserError):
            begun = read_record(mark, _Begun)
            if begun.sha256 == digest(begun.job):
                return begun.job
        return None

    def _check(self, there: Config) -> None:
        """Reject another job than that of the place."""
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
        """Translate the blocks of a process that are missing.

        Args:
            translate: translates the lines of a block.
            rank: the number of the process.
            world: the number of processes.
        """
        path, blocks, lines = self.folder / f"blocks.{rank}", self.blocks, len(self.lines) // world
        mine = range(rank * blocks // world, (rank + 1) * blocks // world)
        with alone(path), writing(path):
            if self.record.exists():  # another process, for which this one waited, has finished
                return
            work = self._append(path, mine, translate)
            deque(counted(work, "translating", int, lines, "lines"), maxlen=0)

    def _append(
        self, path: Path, mine: range, translate: Callable[[list[str]], list[str]]
    ) -> Iterator[int]:
        """Yield the number of lines in each block, once the file has it."""
        found = self._found()
        if there := sum(number in found for number in mine):
            say(f"{there:,} of {len(mine):,} blocks are already translated")
        with path.open("ab") as file:
            for number in mine:
                first = number * self.block
                given = [*self.lines[first : first + self.block]]
                if number not in found:
                    texts = json.dumps(translate(given), ensure_ascii=False)
                    content = f"{number} {texts}".encode()
                    file.write(b"\n" + self._digest(content) + b" " + content)
                    file.flush()
                yield len(given)

    def _digest(self, content: bytes) -> bytes:
        return hashlib.sha256(digest(self.job).encode() + content).hexdigest().encode()

    def _content(self, record: bytes) -> bytes:
        """Return a record without its digest; nothing if the digest does not fit."""
        found, _, content = record.strip(b"\n").partition(b" ")
        return content if found == self._digest(content) else b""

    def _found(self) -> dict[int, tuple[Path, int]]:
        """Return the file and the position of the record of each translated block."""
        found: dict[int, tuple[Path, int]] = {}
        for path in self.folder.glob("blocks.*"):
            if not path.is_file():  # a named pipe would never end
                raise UserError(f"{path} is not a file: remove it; {CONTINUES}")
            at = 0
            with path.open("rb") as file:
                for record in file:
                    if content := self._content(record):
                        found[int(content.partition(b" ")[0])] = path, at
                    at += len(record)
        return found

    def translations(self) -> Iterator[str]:
        """Yield the translations of all lines, once no block is missing."""
        for _, (path, at) in sorted(self._found().items()):
            with path.open("rb") as file:
                file.seek(at)
                yield from json.loads(self._content(file.readline()).partition(b" ")[2])

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
                if missing := self.blocks - len(self._found()):
                    return missing
                sha256 = {path.name: self._write(path, lines) for path, lines in texts.items()}
                empty = sum(not line for line in self.translations())
                made = self.folder / f"text.{self.record.name}"
                write_json(made, {"job": self.job, "sha256": sha256, "empty": empty, **facts})
                made.replace(self.record)
            with suppress(OSError):  # files of somebody else stay, and with them the folder
                for pattern in ("blocks.*", ".blocks.*.lock", "text.*", f"{_JOB}*"):
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
