"""Disks that refuse: an error from some operation on, and a real disk that is too small."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial

from faults import operations
from faults.world import NEW, Case, World, complaints, goes_on, nothing_lost

STEP = 24
"""Disks differ in size by so many KiB."""


def refused(world: World, few: bool) -> list[Case]:
    """A disk that is full, is read-only or breaks."""
    return operations.cases(world, few, ["ENOSPC", "EROFS", "EIO", "EACCES"])


def full(world: World, few: bool) -> list[Case]:
    """A disk that has room for a part of a run, for one in the place of an earlier run or none."""
    if not mounts(world):
        return []  # no right to mount
    size = sum(path.stat().st_size for path in world.earlier.rglob("*")) >> 10
    return [
        Case(
            f"{'a run in the place of another' if earlier else 'a new run'}, a disk of {room} KiB",
            partial(attempt, world, room, earlier),
        )
        for earlier, room in [
            *((True, size + more) for more in range(0, 2 * size, STEP)),
            *((False, room) for room in range(STEP, 2 * size, STEP)),
        ]
    ]


def mounts(world: World) -> bool:
    """Whether a disk can be mounted here."""
    world.fresh()
    done = mount(world, 64)
    if done:
        unmount(world)
    return done


def mount(world: World, size: int, how: str = "nr_inodes=0") -> bool:
    """Mount a disk of so many KiB at the folder of the run directory."""
    command = ["mount", "-t", "tmpfs", "-o", f"{how},size={size}k", "none", str(world.here.parent)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def unmount(world: World) -> None:
    """Remove the disk."""
    subprocess.run(["umount", "--lazy", str(world.here.parent)], check=True)


def attempt(world: World, size: int, earlier: bool) -> str:
    """Train where there is too little room; then go on with more."""
    world.fresh()
    assert mount(world, size)
    try:
        if earlier:
            shutil.copytree(world.earlier, world.here)
        answer = world.train(NEW)
        said = complaints(answer) + (nothing_lost(world) if earlier else [])
        if answer.status == 2 and str(world.here.parent) not in answer.err:
            said.append("the line names no file")
        assert mount(world, 1 << 16, "remount")
        said += goes_on(world)
    except OSError as error:  # the copy does not fit
        said, answer = [], error
    finally:
        unmount(world)
    return "\n".join([*said, str(answer)] if said else [])
