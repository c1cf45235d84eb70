"""The runs that faults befall, and what must hold after any fault."""

from __future__ import annotations

import csv
import json
import random
import shutil
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import torch

from faults.injector import Fault
from faults.warm import Answer, Warm
from simulmt.data.verbfinal import verbfinal
from small_runs import SMALL

CHOSEN = [*SMALL, "mechanism=mma_il", "lambda=0.2"]
EARLIER, NEW = "seed=1", "seed=2"
"""The seeds of a finished run, and of the run that takes its place."""
BAD_INPUT = {2}
NOTES = ("warning:", "Initializing distributed")
"""Starts of lines beside the one of an error."""
MUCH = 2 << 30
"""The most memory in bytes that a tiny run or file may take, torch included."""


class Case(NamedTuple):
    """A fault.

    Attributes:
        name: A few words.
        attempt: Returns the complaints about its effects: "" for none, None if it is no case.
    """

    name: str
    attempt: Callable[[], str | None]


class World:
    """Runs in a folder, made when they are first asked for, and the warm process.

    Args:
        folder: takes the runs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.type_in = Warm(folder)
        self.here = folder / "here" / "run"
        self.cache = folder / "cache"
        self.canary = folder / "canary"

    def train(self, *overrides: object, place: Path | None = None, **how) -> Answer:
        """Train in `here`, or in another place."""
        places = (f"hydra.run.dir={place or self.here}", f"cache={self.cache}")
        return self.type_in("train.py", *CHOSEN, *overrides, *places, **how)

    def fresh(self, run: Path | None = None) -> Path:
        """Make `here` a copy of a run, or absent; remove what lies beside it."""
        shutil.rmtree(self.here.parent, ignore_errors=True)
        self.here.parent.mkdir()
        if run:
            shutil.copytree(run, self.here)
        return self.here

    def _trained(self, name: str, *overrides: str) -> Path:
        answer = self.train(*overrides, place=self.folder / name, seconds=120)
        assert answer.status == 0, answer
        return self.folder / name

    @cached_property
    def earlier(self) -> Path:
        """A finished run."""
        return self._trained("earlier", EARLIER)

    @cached_property
    def whole(self) -> Path:
        """The run that takes its place, finished without a fault."""
        return self._trained("whole", NEW)

    @cached_property
    def half(self) -> Path:
        """That run, killed between its first validation and the second."""
        place = self.folder / "half"
        killed = Fault(str(place), pattern=r"^write .*samples", nth=1)
        assert self.train(NEW, place=place, fault=killed).status == -9
        return place

    @cached_property
    def exported(self) -> Path:
        """The finished run as an exported folder."""
        answer = self.type_in(
            "export.py", f"checkpoint={self.earlier}", f"to={self.folder / 'out'}"
        )
        assert answer.status == 0, answer
        return self.folder / "out"

    @cached_property
    def text(self) -> Path:
        """A folder of parallel text."""
        folder = self.folder / "text"
        folder.mkdir()
        for name, split in verbfinal(seed=3, train=200, valid=20, test=20).splits.items():
            (folder / f"{name}.de").write_text("\n".join(split.sources))
            (folder / f"{name}.en").write_text("\n".join(split.targets))
        return folder

    @cached_property
    def source(self) -> Path:
        """A file to translate."""
        path = self.folder / "source.txt"
        path.write_text("weil Onkel das Radio abnehmen\n\nAnna wäscht\n")
        return path


def complaints(answer: Answer, statuses: set[int] = BAD_INPUT, late: bool = False) -> list[str]:
    """What no command may do, whatever befalls it; statuses are those that may say it failed."""
    errors = [line for line in answer.err.splitlines() if not line.startswith(NOTES)]
    wrong = {
        "a traceback": "Traceback" in answer.out + answer.err,
        f"{len(errors)} lines of errors": len(errors) > 1,
        "output on a success": answer.status == 0 and bool(errors),
        "no line that says why": answer.status == 2 and "error: " not in [e[:7] for e in errors],
        f"status {answer.status}": answer.status not in {0, *statuses},
        "a hang": answer.late and not late,
        f"{answer.orphans} orphans": answer.orphans > 0,
        f"{answer.memory >> 20} MiB": answer.memory > MUCH,
    }
    found = [name for name, holds in wrong.items() if holds]
    return [f"{', '.join(found)}\n{answer}"] if found else []


def results(folder: Path) -> dict[str, object]:
    """All that must not depend on interruptions: scores, translations, metrics and weights."""
    found: dict[str, object] = {}
    for name in ("test_scores.json", "instances.log"):
        found[name] = (folder / name).read_bytes() if (folder / name).exists() else None
    if (folder / "metrics.csv").exists():
        with (folder / "metrics.csv").open(newline="") as file:
            rows = [*csv.DictReader(file)]
        found["metrics"] = [{k: v for k, v in r.items() if "tokens_per_s" not in k} for r in rows]
    for name in ("best", "last"):
        found[name] = digest(folder / "checkpoints" / f"{name}.ckpt")
    return found


def digest(checkpoint: Path) -> str | None:
    """A digest of the weights; None without a loadable checkpoint."""
    try:
        weights = torch.load(checkpoint, weights_only=True)["state_dict"]
    except Exception:
        return None
    parts = [name.encode() + weights[name].numpy().tobytes() for name in sorted(weights)]
    return sha256(b"".join(parts)).hexdigest()


def same_results(folder: Path, expected: Path) -> list[str]:
    """A complaint for results that differ."""
    mine, theirs = results(folder), results(expected)
    differ = [name for name in theirs if mine.get(name) != theirs[name]]
    return [f"{', '.join(differ)} differ from those of {expected.name}"] if differ else []


def is_whole(folder: Path, earlier: Path) -> bool:
    """Whether the earlier run stands in a folder to the last byte."""
    names = ("test_scores.json", "instances.log", "config.json", "manifest.json", "metrics.csv")
    files = [*names, *(f"checkpoints/{p.name}" for p in (earlier / "checkpoints").iterdir())]
    kept = (folder / name for name in files)
    return all(
        path.is_file() and path.read_bytes() == (earlier / name).read_bytes()
        for path, name in zip(kept, files, strict=True)
    )


def has_checkpoint(folder: Path, name: str = "*") -> bool:
    """Whether a run that is not the earlier one has a checkpoint."""
    for path in folder.glob(f"checkpoints/{name}.ckpt"):
        if digest(path):
            config = torch.load(path, weights_only=True)["simulmt"]["config"]
            if f"seed={config['seed']}" != EARLIER:
                return True
    return False


def nothing_lost(world: World) -> list[str]:
    """A complaint if the earlier run is not whole, in its place or set aside."""
    places = (world.here, world.here.with_name(f"{world.here.name}@1"))
    if any(is_whole(place, world.earlier) for place in places):
        return []
    beside = world.here.parent
    there = sorted(str(path.relative_to(beside)) for path in beside.rglob("*") if path.is_file())
    return [f"the earlier run is lost: {json.dumps(there)}"]


def goes_on(world: World, *overrides: object) -> list[str]:
    """Complaints if the same command, resumed if possible, does not end as without a fault."""
    resumes = not is_whole(world.here, world.earlier) and has_checkpoint(world.here)
    trained = resumes and has_checkpoint(world.here, "last")
    again = world.train(NEW, *overrides, *["ckpt_path=last"] * resumes)
    if again.status:
        return [f"then: status {again.status}\n{again}"]
    anew = json.loads((world.here / "training.json").read_text())["resumed_at"] == 0
    anew = anew and "is already finished" not in again.out
    lost = [f"then: trained again, although there was a checkpoint\n{again}"] * (trained and anew)
    return complaints(again) + lost + same_results(world.here, world.whole)


def shuffled(cases: Sequence[Case]) -> list[Case]:
    """The cases in an order that is always the same, and that goes all over them."""
    return random.Random(0).sample(cases, len(cases))
