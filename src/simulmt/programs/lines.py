"""What the programs that translate lines share: the search, and files that a kill leaves whole."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import torch

from simulmt.data.store import digest
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import Search
from simulmt.errors import UserError
from simulmt.models.model import Model
from simulmt.parts.builders import build_search
from simulmt.saved.trained import Trained
from simulmt.system.console import say
from simulmt.system.disk import read_json, write_json, writing
from simulmt.system.lock import alone


def line_search(
    trained: Trained,
    model: Model,
    policy: Policy | None,
    beam: int | None = None,
    length_penalty: float | None = None,
) -> Search:
    """Return the search of the training, greedy for a policy, with the options that are not None.

    Raises:
        UserError: an option is out of range, or has no effect.
    """
    chosen = {"beam": beam, "length_penalty": length_penalty}
    given = {name: value for name, value in chosen.items() if value is not None}
    usual = {"beam": 1} if policy else {}
    search = build_search({**trained.setup.decoding, **usual, **given}, model)
    if policy and not policy.beams and search.beam > 1:
        raise UserError(
            f"beam={beam} with policy {type(policy).__name__}, which decides word by word: leave "
            "out beam, or choose a policy that compares whole drafts, such as local_agreement"
        )
    if search.beam == 1 and length_penalty is not None:
        raise UserError(
            f"length_penalty={length_penalty} has no effect on greedy decoding (beam=1): leave it "
            "out, or set beam to 2 or more (for a model that reads the whole sentence first)"
        )
    return search


def digest_of(trained: Trained) -> str:
    """Return the SHA-256 in hex of a model, its subwords and its weights."""
    state = hashlib.sha256()
    for name, value in sorted(trained.weights.items()):
        state.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        state.update(value.contiguous().view(torch.uint8).numpy().data if value.dim() else b"")
    parts = [trained.setup.model, trained.setup.mechanism]
    return digest([parts, trained.subwords.digest, state.hexdigest()])


def write_job(place: Path, record: Path, job: Mapping[str, object]) -> None:
    """Write down what decides the text of a file or folder, before its first line.

    Raises:
        UserError: the record there is of another job.
    """
    if record.exists():
        check_job(place, read_json(record), job)
    else:
        write_json(record, job)


def check_job(place: Path, there: Mapping[str, object], job: Mapping[str, object]) -> None:
    """Reject a job that is not the one that a file or folder was begun with."""
    changed = [name for name in {**there, **job} if there.get(name) != job.get(name)]
    if changed:
        was, now = (", ".join(f"{n}={of.get(n)}" for n in changed) for of in (there, job))
        raise UserError(
            f"{place} was written with {was}, not {now}: repeat the earlier command, or choose "
            "another place"
        )


def append(
    path: Path,
    lines: Sequence[str],
    block: int,
    translate: Callable[[list[str]], list[str]],
    part: slice = slice(None),
) -> Iterator[int]:
    """Translate the lines that a file still lacks, and append them block by block.

    A killed process may leave an unfinished last line, which is removed.

    Args:
        path: the file; locked while this process appends to it.
        lines: all lines.
        block: the number of lines in a block.
        translate: translates the lines of a block.
        part: the blocks of this file, of all blocks.

    Yields:
        The number of lines in each block, once they are in the file.
    """
    with alone(path), writing(path), path.open("ab") as file:
        there, size = whole_lines(path)
        file.truncate(size)
        if there:
            say(f"{path} already has {there:,} lines: only the rest is translated")
        for first in range(0, len(lines), block)[part]:
            given = [*lines[first : first + block]]
            if there < len(given):
                file.writelines(f"{line}\n".encode() for line in translate(given)[there:])
                file.flush()
            there = max(0, there - len(given))
            yield len(given)


def whole_lines(path: Path) -> tuple[int, int]:
    """Return the number of lines of a file that end in LF, and their bytes; 0 if it is absent."""
    count = size = 0
    with suppress(FileNotFoundError), path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                count, size = count + 1, size + len(line)
    return count, size
