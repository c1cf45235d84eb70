"""Kills, signals and disk errors at every file operation of a program.

Each scenario is first run without a fault, which lists its operations.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from faults.injector import Fault
from faults.warm import Answer
from faults.world import (
    BAD_INPUT,
    CHOSEN,
    NEW,
    Case,
    World,
    complaints,
    goes_on,
    nothing_lost,
    same_results,
)

OF_TEXT = [each for each in CHOSEN if not each.startswith("data.") or "batch" in each]
OF_TEXT += ["data.subwords.size=400"]
STATUSES = {
    "SIGKILL": {-9},
    "SIGTERM": {143, -15},
    "SIGINT": {130, -2},
    "SIGHUP": {129, -1},
    "SIGXFSZ": {-25},
    **dict.fromkeys(("ENOSPC", "EROFS", "EIO", "EACCES"), BAD_INPUT),
}


class Scenario(NamedTuple):
    """A program that faults befall.

    Attributes:
        prepare: Puts everything in place.
        run: Runs the program with a fault.
        after: Returns the complaints about what a fault has left, and whether all goes on.
    """

    prepare: Callable[[], object]
    run: Callable[[Fault], Answer]
    after: Callable[[], list[str]]


def scenarios(world: World) -> dict[str, Scenario]:
    """A new run, of text, too, one in another's place, one that goes on, and three programs."""

    def train(*overrides: str) -> Callable[[Fault], Answer]:
        return lambda fault: world.train(NEW, *overrides, fault=fault)

    def program(*command: str) -> Scenario:
        def after() -> list[str]:
            again = world.type_in(*command)
            failed = [f"then: status {again.status}"] if again.status else []
            return failed + complaints(again) + same_results(world.here, world.earlier)

        return Scenario(
            lambda: world.fresh(world.earlier),
            lambda fault: world.type_in(*command, fault=fault),
            after,
        )

    def exported() -> list[str]:
        to = world.here.parent / "out"
        export = world.type_in("export.py", f"checkpoint={world.here}", f"to={to}")
        again = [export] if not to.exists() or export.status == 0 else []
        used = world.type_in("translate.py", f"checkpoint={to}", f"input={world.source}")
        said = [line for answer in (*again, used) for line in complaints(answer, set())]
        return said or [f"then: status {used.status}"] * (used.status != 0)

    def text(place: Path, **how: Fault) -> Answer:
        options = ["data=text", f"data.root={world.text}", "data.source=de", "data.target=en"]
        places = [f"hydra.run.dir={place}", f"cache={place.parent / 'cache'}", "ckpt_path=last"]
        return world.type_in("train.py", *OF_TEXT, *options, *places, **how)

    def same_text() -> list[str]:
        """The cache and the run, begun or not, are finished by the same command."""
        place = world.folder / "of text" / "run"
        if not place.exists():
            text(place)
        return complaints(text(world.here), set()) + same_results(world.here, place)

    here, to = world.here, world.here.parent / "out"
    export = program("export.py", f"checkpoint={here}", f"to={to}")
    return {
        "new": Scenario(world.fresh, train(), lambda: goes_on(world)),
        "text": Scenario(world.fresh, lambda fault: text(here, fault=fault), same_text),
        "replace": Scenario(
            lambda: world.fresh(world.earlier),
            train(),
            lambda: nothing_lost(world) + goes_on(world),
        ),
        "resume": Scenario(
            lambda: world.fresh(world.half), train("ckpt_path=last"), lambda: goes_on(world)
        ),
        "evaluate": program("evaluate.py", f"checkpoint={here}", "device=cpu"),
        "report": program("report.py", f"runs={here}", "resamples=40"),
        "export": export._replace(after=exported),
    }


@cache
def operations(world: World, name: str) -> list[str]:
    """What a scenario does to files when nothing befalls it."""
    scenario, log = scenarios(world)[name], world.folder / f"{name}.log"
    scenario.prepare()
    answer = scenario.run(Fault(str(world.here.parent), log=str(log)))
    assert answer.status == 0, answer
    return log.read_text().splitlines()


def cases(world: World, few: bool, actions: Sequence[str], **more: Any) -> list[Case]:
    """Each action at each operation of each scenario, or of one alone."""
    found = []
    for name, scenario in scenarios(world).items():
        if few and name != "replace":
            continue
        listed = enumerate(operations(world, name))
        for (number, operation), action in product(listed, actions):
            title = " ".join([name, action, *more, f"at {number}: {operation}"])
            size = random.Random(title).randrange(1, 20_000)
            fault = Fault(str(world.here.parent), nth=number, action=action, size=size, **more)
            found.append(Case(title, partial(attempt, world, scenario, fault)))
    return found


def attempt(world: World, scenario: Scenario, fault: Fault) -> str:
    """Let the fault befall the program; it may come too late to do anything."""
    scenario.prepare()
    answer = scenario.run(fault)
    said = complaints(answer, STATUSES[fault.action])
    if answer.status == 2 and str(world.folder) not in answer.err:
        said.append(f"the line names no file\n{answer}")
    return "\n".join(said + scenario.after())


def kills(world: World, few: bool) -> list[Case]:
    """The end right before each operation, and in a write after it, at a byte from a seed."""
    return cases(world, few, ["SIGKILL", "SIGXFSZ"])


def signals(world: World, few: bool) -> list[Case]:
    """The other signals; two of them, as `timeout` sends."""
    once = cases(world, few, ["SIGTERM", "SIGINT", "SIGHUP"])
    return once + cases(world, few, ["SIGTERM"], twice=True)


def refused(world: World, few: bool) -> list[Case]:
    """A disk that is full, is read-only or breaks."""
    return cases(world, few, ["ENOSPC", "EROFS", "EIO", "EACCES"])
