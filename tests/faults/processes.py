"""Signals at each phase of whole commands: cold ones, two processes of one run, and sweeps."""

from __future__ import annotations

import csv
from functools import cache, partial
from itertools import product
from pathlib import Path

from faults.injector import Fault
from faults.operations import STATUSES
from faults.world import NEW, Case, World, complaints, same_results

PHASES: dict[str, dict[str, object]] = {
    "imports": {"pattern": r"^import torch$"},
    "data": {"pattern": r"\.subwords$"},
    "start": {"pattern": r"^write .*config\.json"},
    "training": {"pattern": r"^write .*metrics\.csv$", "nth": 1},
    "validation": {"pattern": r"^write .*best\.ckpt"},
    "later": {"pattern": r"^write .*metrics\.csv$", "nth": 4},
    "test": {"pattern": r"^read .*best\.ckpt"},
    "end": {"pattern": r"^write .*instances\.log"},
}
AGENT = {"the start of a rank": {"pattern": r"^start "}}
"""Of the process that starts the ranks."""
DDP = ("trainer=ddp", "trainer.accelerator=cpu")
SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP", "SIGKILL"]
OF_A_RANK = {"SIGTERM": {143}, "SIGINT": {130}, "SIGHUP": {129}, "SIGKILL": {137}}
"""The status of a run of which a signal has ended one rank."""


def moment(world: World, phase: str, action: str, to: str = "self") -> Fault:
    """A signal at a phase."""
    at = {"nth": 0, **{**PHASES, **AGENT}[phase]}
    return Fault(str(world.here.parent), action=action, to=to, **at)


def ranks(world: World, few: bool) -> list[Case]:
    """Two ranks of a run: one of them gets the signal, or the process that has started them."""
    found = []
    for phase, action, to in [
        *product(AGENT, SIGNALS, ["self"]),
        *product(PHASES, SIGNALS, ["self", "parent"]),
    ]:
        fault = moment(world, phase, action, to)._replace(passed_on=int(phase in PHASES))
        whom = "the agent" if to == "parent" or phase in AGENT else "a rank"
        found.append(Case(f"{phase}: {action} to {whom}", partial(two, world, fault)))
    return found


def two(world: World, fault: Fault) -> str:
    """Two ranks: after the signal no process is left, and the run goes on."""
    here = world.fresh()
    fault = fault._replace(once=str(here.parent / "once"))
    answer = world.train(NEW, *DDP, fault=fault, seconds=90)
    of_a_rank = fault.passed_on and fault.to == "self"
    statuses = (OF_A_RANK if of_a_rank else STATUSES)[fault.action]
    said = complaints(answer, statuses)
    again = world.train(NEW, *DDP, "ckpt_path=last", seconds=90)
    failed = [f"then: status {again.status}"] if again.status else []
    return "\n".join(said + complaints(again) + failed + same_results(here, both(world)))


@cache
def both(world: World) -> Path:
    """The run of two processes without a fault."""
    place = world.folder / "both"
    assert world.train(NEW, *DDP, place=place, seconds=120).status == 0
    return place


def sweeps(world: World, few: bool) -> list[Case]:
    """A sweep of two runs: the process of a run gets the signal, the sweep's own, or both."""
    return [
        Case(f"{phase}: {action} to {to}", partial(sweep, world, moment(world, phase, action, to)))
        for phase, action, to in product(PHASES, SIGNALS, ["self", "parent", "group"])
    ]


def sweep(world: World, fault: Fault) -> str:
    """A sweep: after the signal the same command trains what is missing."""
    here = world.fresh()
    options = [
        "hydra.mode=MULTIRUN",
        "seed=2,3",
        f"hydra.sweep.dir={here}",
        "hydra.sweep.subdir=${seed}",
    ]
    fault = fault._replace(passed_on=1, once=str(here.parent / "once"))
    answer = world.train(*options, fault=fault, seconds=120)
    said = complaints(answer, {1, *STATUSES[fault.action]})
    again = world.train(*options, seconds=120)
    failed = [f"then: status {again.status}\n{again}"] if again.status else []
    said += complaints(again) + failed + same_results(here / "2", world.whole)
    with (here / "sweep.csv").open(newline="") as file:
        outcomes = [row["outcome"] for row in csv.DictReader(file)]
    if len(outcomes) != 2 or "failed" in outcomes:
        said.append(f"the outcomes are {outcomes}")
    return "\n".join(said)
