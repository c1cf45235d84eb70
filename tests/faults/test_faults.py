"""Whatever befalls a program: no traceback, no hang, nothing lost, no orphan, nothing executed.

Each class lists its cases. A few of each run with the fast tests, as many as fit a time with the
slow ones, in an order that is always the same.
"""

from __future__ import annotations

import math
import os
import time

import pytest

from faults import blocks, empty, files, operations, processes, text, values
from faults.world import World, shuffled

CLASSES = {
    "values": (values.values, 12),
    "commands": (values.commands, 1),
    "files": (files.files, 4),
    "blocks": (blocks.blocks, 24),
    "kills": (operations.kills, 1),
    "signals": (operations.signals, 1),
    "disks that refuse": (operations.refused, 1),
    "ranks": (processes.ranks, 0),
    "sweeps": (processes.sweeps, 0),
    "records of a cache": (text.records, 12),
    "combining marks": (text.marks, 12),
    "cards of data sets": (text.cards, 6),
    "empty options": (empty.values, 8),
    "empty commands": (empty.commands, 2),
}
"""What lists the cases of each class, and how many of them are fast tests."""
SECONDS = int(os.environ.get("FAULT_SECONDS", "140"))
"""The time of each class in the slow tests."""


@pytest.mark.parametrize("name", [name for name in CLASSES if CLASSES[name][1]])
def test_a_few_faults(name, world, record_property):
    walk(name, world, record_property, few=True, most=CLASSES[name][1])


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_many_faults(name, world, record_property):
    walk(name, world, record_property, few=False, seconds=SECONDS)


def walk(
    name: str, world: World, record_property, few: bool, most=math.inf, seconds=math.inf
) -> None:
    """Try the cases of a class until there are enough, or the time is over."""
    cases = shuffled(CLASSES[name][0](world, few))
    began, tried, failures = time.monotonic(), 0, []
    for case in cases:
        if tried >= most or time.monotonic() - began > seconds:
            break
        complaint = case.attempt()
        tried += complaint is not None
        if complaint:
            failures.append(f"--- {name}: {case.name}\n{complaint}")
    row = {"class": name, "tried": tried, "of": len(cases), "failures": len(failures)}
    record_property("faults", row | {"seconds": round(time.monotonic() - began)})
    if failures:
        pytest.fail(f"{len(failures)} of {tried} cases:\n" + "\n".join(failures), pytrace=False)
