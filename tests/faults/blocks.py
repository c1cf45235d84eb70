"""The blocks of an unfinished translation, corrupted in many ways: the result stays the same."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

from faults.damages import damages
from faults.world import Case, World
from simulmt.errors import UserError
from simulmt.programs.line_job import LineJob

LINES = [f"line {number} äß\u2028 \\n \"'" for number in range(43)]
WORLD, BLOCK, SEEDS = 3, 4, 4
MARK = "job.json"
MINE = {"notes.tmp": b"mine", "train.de": b"mine, too", "out.txt.json.tmp": b"mine"}
"""Files of the user beside the job."""
Spoil = Callable[[Path, random.Random], object]


def blocks(world: World, few: bool) -> list[Case]:
    """Each corruption of some files of a job, with several seeds."""
    files = [*(f"block-{number:07d}.json" for number in (0, 5, 10)), MARK]
    titles = product([*spoils(world.canary)], files, range(SEEDS))
    return [
        Case(f"{what}, {name}, seed {seed}", partial(attempt, world, what, name, seed))
        for what, name, seed in titles
        if name != MARK or what in damages(world.canary)
    ]


def spoils(canary: Path) -> dict[str, Spoil]:
    """The ways to corrupt a file, and to mix up the blocks of a job."""

    def swapped(path: Path, rng: random.Random) -> None:
        other = path.with_name(f"block-{rng.randrange(1, 5):07d}.json")
        first, second = path.read_bytes(), other.read_bytes()
        path.write_bytes(second)
        other.write_bytes(first)

    def other_job(path: Path, rng: random.Random) -> None:
        path.unlink()
        others = [file for file in path.parent.glob("block-*") if file != path]
        kept = {file: file.read_bytes() for file in others}
        for file in others:
            file.unlink()
        work(path.parents[1], {"beam": 5}, path.parent, "x")
        for file, content in kept.items():
            file.write_bytes(content)

    def byte(path: Path, rng: random.Random) -> None:
        content = bytearray(path.read_bytes())
        content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(content)

    def cut(path: Path, rng: random.Random) -> None:
        content = path.read_bytes()
        path.write_bytes(content[: rng.randrange(len(content))])

    return {
        **damages(canary),
        "another byte": byte,
        "cut anywhere": cut,
        "swapped files": swapped,
        "a named pipe": lambda path, rng: (path.unlink(), os.mkfifo(path)),
        "of another job": other_job,
    }


def job(home: Path, decisions: dict[str, object], folder: Path | None = None) -> LineJob:
    """A job that translates the lines to `out.txt`."""
    output, unfinished = home / "out.txt", folder or home / "out.txt.unfinished"
    return LineJob(output, home / "out.txt.json", unfinished, decisions, LINES, BLOCK)


def work(home: Path, decisions: dict[str, object], folder: Path | None, mark: str) -> None:
    """Translate the blocks of all processes."""
    for rank in range(WORLD):
        job(home, decisions, folder).translate(
            lambda lines: [mark + line for line in lines], rank, WORLD
        )


def finish(home: Path) -> list[int]:
    """Repeat the command to its end; return the sizes of the blocks that were translated again."""
    again, last = [], job(home, {"beam": 4})
    if not last.begin(taken=last.place.exists()):
        for rank in range(WORLD):
            last.translate(
                lambda ls: again.append(len(ls)) or [f">{line}" for line in ls], rank, WORLD
            )
        assert last.publish({last.place: last.translations()}, {}) == 0
    return again


def attempt(world: World, what: str, name: str, seed: int) -> str:
    """Corrupt a file of an unfinished job, and repeat the command."""
    home, rng = world.fresh().parent, random.Random(f"{what} {name} {seed}")
    for file, content in MINE.items():
        (home / file).write_bytes(content)
    first = job(home, {"beam": 4})
    first.begin(taken=False)
    work(home, {"beam": 4}, None, ">")
    path = first.folder / name
    spoils(world.canary)[what](path, rng)
    said = []
    try:
        again = finish(home)
    except UserError as error:  # in one line, with what to remove
        if str(path) not in str(error) and "was written with beam=" not in str(error):
            said.append(f"the line does not name the file: {error}")
        path.rmdir() if path.is_dir() else path.unlink()
        again = finish(home)
    if first.place.read_text("utf-8").split("\n") != [*(f">{line}" for line in LINES), ""]:
        said.append("another translation")
    if len(again) > (2 if what == "swapped files" else 1):
        said.append(f"{len(again)} blocks were translated again")
    mine = {file: (home / file).read_bytes() for file in MINE if (home / file).exists()}
    if mine != MINE or {p.name for p in home.iterdir()} - {*MINE} != {
        "out.txt",
        "out.txt.json",
        ".out.txt.lock",
    }:
        said.append(f"files: {sorted(p.name for p in home.rglob('*'))}")
    if world.canary.exists():
        world.canary.unlink()
        said.append("something from the file was executed")
    if finish(home):
        said.append("finished work was repeated")
    return "\n".join(said)
