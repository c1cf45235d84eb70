"""Every file of a run, an exported folder and a cache, damaged in many ways, for every program."""

from __future__ import annotations

import random
from functools import cache, partial
from itertools import product
from pathlib import Path

from faults.damages import Damage, damages
from faults.injector import Fault
from faults.world import CHOSEN, EARLIER, Case, World, complaints, results

MEMORY = 2 << 30
"""What a program may take beside the warm process."""
SECONDS = 40
RESUMED = ["ckpt_path=last", "trainer.max_updates=9"]
"""With more updates than the finished run has made."""


def files(world: World, few: bool) -> list[Case]:
    """Each damage of each file for each program that reads it."""
    of_exported = ["evaluate", "translate", "export", "start"]
    programs = {
        world.earlier: [*of_exported, "report", "analyse", "study", "resume", "again"],
        world.exported: of_exported,
        world.cache: ["cached"],
    }
    pairs = [(home, each) for home, names in programs.items() for each in names]
    ways, found = damages(world.canary), []
    for home, program in pairs[:1] if few else pairs:
        for name, (what, damage) in product(read(world, home, program), ways.items()):
            title = f"{program}: {home.name}/{name}, {what}"
            found.append(Case(title, partial(attempt, world, home, name, damage, program, title)))
    return found


@cache
def read(world: World, home: Path, program: str) -> list[str]:
    """The files of a folder that a program reads; those in Rust are not seen to be read."""
    log = world.folder / "read.log"
    fault = Fault(str(world.fresh(home)), pattern="^read (?!/)", log=str(log))
    answer = world.type_in(*command(world, program), fault=fault)
    assert answer.status == 0, answer
    names = {line.partition(" ")[2] for line in log.read_text().splitlines()}
    names |= {path.name for path in home.glob("*.safetensors")}
    return sorted(name for name in names if (home / name).is_file())


def command(world: World, program: str) -> list[str]:
    """What a user types to use `here` in a program."""
    here, out = world.here, world.here.parent / "out"
    train = ["train.py", *CHOSEN, EARLIER]
    return {
        "evaluate": ["evaluate.py", f"checkpoint={here}", "device=cpu"],
        "translate": ["translate.py", f"checkpoint={here}", f"input={world.source}"],
        "report": ["report.py", f"runs={here}", "resamples=40"],
        "analyse": ["analyse.py", f"runs={here}", "study=by_length"],
        "study": ["analyse.py", f"runs={here}", "study=layers_heads"],
        "export": ["export.py", f"checkpoint={here}", f"to={out}"],
        "resume": [*train, f"cache={world.cache}", f"hydra.run.dir={here}", *RESUMED],
        "again": [*train, f"cache={world.cache}", f"hydra.run.dir={here}"],
        "start": [*train, f"cache={world.cache}", f"hydra.run.dir={out}", f"init_from={here}"],
        "cached": [*train, f"cache={here}", f"hydra.run.dir={out}"],
    }[program]


def attempt(world: World, home: Path, name: str, damage: Damage, program: str, title: str) -> str:
    """Damage a file in a copy, and use the copy."""
    here, out = world.fresh(home), world.here.parent / "out"
    damage(here / name, random.Random(title))
    answer = world.type_in(*command(world, program), memory=MEMORY, seconds=SECONDS)
    if program == "resume" and "another value" in title and answer.status == 1:
        answer = answer._replace(status=0, err="")  # of a library, whose state somebody has edited
    said = complaints(answer)
    if world.canary.exists():
        world.canary.unlink()
        said.append("something from the file was executed")
    if program == "export" and out.exists() and answer.status:
        said.append(f"export wrote {sorted(p.name for p in out.iterdir())}, and failed")
    if "flipped" in title and answer.status == 0:
        said += unnoticed(world, name, program)
    return "\n".join(said)


def unnoticed(world: World, name: str, program: str) -> list[str]:
    """A complaint if a flipped bit of weights has changed a result."""
    if not name.endswith(".ckpt"):
        return []
    expected = (world.earlier / "test_scores.json").read_bytes()
    scores = [path.read_bytes() for path in world.here.glob("evaluation/test-*/scores.json")]
    same = results(world.here) == results(world.earlier) if program == "resume" else True
    return [] if same and all(each == expected for each in scores) else ["the bit went unnoticed"]
