"""Every file of a run, an exported folder and a cache, damaged in many ways, for every program."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from faults.injector import Fault
from faults.world import CHOSEN, EARLIER, Case, World, complaints, results

MEMORY = 2 << 30


class Hostile:
    """Makes a file, the canary, wherever it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self):
        return os.system, (f"touch {self.canary}",)


def truncated(share: float) -> Callable[[Path, random.Random], None]:
    return lambda path, _: os.truncate(path, int(share * path.stat().st_size))


def rewritten(change: Callable[[bytes, random.Random], bytes]):
    def damage(path: Path, rng: random.Random) -> None:
        path.write_bytes(change(path.read_bytes(), rng))

    return damage


def flip(content: bytes, rng: random.Random) -> bytes:
    """Flip one bit."""
    place = rng.randrange(len(content) or 1)
    return (
        content[:place]
        + bytes(b ^ 1 << rng.randrange(8) for b in content[place : place + 1])
        + (content[place + 1 :])
    )


def absent(path: Path, _: random.Random) -> None:
    path.unlink()


def folder(path: Path, _: random.Random) -> None:
    path.unlink()
    path.mkdir()


def loop(path: Path, _: random.Random) -> None:
    path.unlink()
    path.symlink_to(path)


LEAVES: list[Any] = [None, True, -1, 10**30, 1e300, "", "text", [], {}, [[]], {"a": {}}]
TENSORS: list[Callable[[torch.Tensor], Any]] = [
    lambda t: t.half(),
    lambda t: t.to(torch.int64),
    lambda t: t.bool(),
    lambda t: t.flatten()[:1].clone(),
    lambda t: t[None],
    lambda t: torch.full_like(t, torch.nan) if t.is_floating_point() else t.double(),
    lambda t: t.flatten()[:1].expand(10**9),
    lambda t: torch.zeros(1).expand(10**6, 10**6),
    lambda t: torch.empty(0),
    lambda t: "no tensor",
    lambda t: t.to(torch.complex64),
    lambda t: t.to_sparse(),
]


def change_leaf(content: Any, rng: random.Random) -> Any:
    """Replace, remove or add an entry somewhere in nested values."""
    if isinstance(content, torch.Tensor):
        return rng.choice(TENSORS)(content)
    if not isinstance(content, (dict, list)) or not content or rng.random() < 0.1:
        return rng.choice(LEAVES)
    key = rng.choice([*content] if isinstance(content, dict) else range(len(content)))
    if rng.random() < 0.15:
        del content[key]
    else:
        content[key] = change_leaf(content[key], rng)
    return content


def leaf(path: Path, rng: random.Random) -> None:
    """Change a value inside a file that has a structure; of others, a line."""
    if path.suffix == ".ckpt":
        torch.save(change_leaf(torch.load(path, weights_only=True), rng), path)
    elif path.suffix == ".safetensors":
        weights = load_file(path)
        name = rng.choice([*weights])
        changed = rng.choice(TENSORS[:6])(weights[name]).contiguous()
        save_file({**weights, name: changed}, path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(change_leaf(json.loads(path.read_text()), rng)))
    else:
        lines = path.read_bytes().splitlines(keepends=True) or [b""]
        lines[rng.randrange(len(lines))] = rng.choice(
            [b"[]\n", b'{"index": 0}\n', b",,\n", b"\n", b"\x00\n", b"nan,1e999,x\n", b'"\n']
        )
        path.write_bytes(b"".join(lines))


def damages(canary: Path) -> dict[str, Callable[[Path, random.Random], None]]:
    """The ways to damage a file, by name."""
    ran = f'!!python/object/apply:os.system ["touch {canary}"]\n'.encode()
    texts = {
        "empty": b"",
        "a list": b"[1, 2]\n",
        "nested": b"[" * 100_000,
        "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        "a huge number": b'{"a": ' + b"9" * 100_000 + b"}",
        "not UTF-8": b"\xff\xfe{}",
        "YAML that runs": ran,
        "one long line": b"a" * 5_000_000,
    }
    return {
        **{name: rewritten(lambda _, __, t=text: t) for name, text in texts.items()},
        **{f"cut to {share:.0%}": truncated(share) for share in (0.01, 0.5, 0.99)},
        "noise": rewritten(lambda content, rng: rng.randbytes(len(content))),
        "zeros": rewritten(lambda content, _: bytes(len(content))),
        "doubled": rewritten(lambda content, _: content * 2),
        "a flipped bit": rewritten(flip),
        "a pickle that runs": lambda path, _: torch.save({"simulmt": Hostile(canary)}, path),
        **{"absent": absent, "a folder": folder, "a loop": loop},
        **{f"another value {number}": leaf for number in range(6)},
    }


OF_RUN = [
    "evaluate",
    "report",
    "resume",
    "translate",
    "analyse",
    "study",
    "export",
    "start",
    "again",
]
OF_EXPORTED = ["evaluate", "translate", "export", "start"]


def files(world: World, few: bool) -> list[Case]:
    """Each damage of each file for each program that reads it."""
    places = (
        {world.earlier: OF_RUN[:1]}
        if few
        else {world.earlier: OF_RUN, world.exported: OF_EXPORTED, world.cache: ["cached"]}
    )
    cases = []
    for home, programs in places.items():
        for program in programs:
            for name in read(world, home, program):
                for what, damage in damages(world.canary).items():
                    title = f"{program}: {home.name}/{name}, {what}"
                    case = partial(attempt, world, home, name, damage, program, title)
                    cases.append(Case(title, case))
    return cases


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
        "report": ["report.py", f"runs={here}", "resamples=40", "training=true"],
        "analyse": ["analyse.py", f"runs={here}", "study=by_length"],
        "study": ["analyse.py", f"runs={here}", "study=layers_heads"],
        "export": ["export.py", f"checkpoint={here}", f"to={out}"],
        "resume": [*train, f"cache={world.cache}", f"hydra.run.dir={here}", "ckpt_path=last"],
        "again": [*train, f"cache={world.cache}", f"hydra.run.dir={here}"],
        "start": [*train, f"cache={world.cache}", f"hydra.run.dir={out}", f"init_from={here}"],
        "cached": [*train, f"cache={here}", f"hydra.run.dir={out}"],
    }[program]


def attempt(world: World, home: Path, name: str, damage: Callable, program: str, title: str) -> str:
    """Damage a file in a copy, and use the copy."""
    here, out = world.fresh(home), world.here.parent / "out"
    damage(here / name, random.Random(title))
    answer = world.type_in(*command(world, program), memory=MEMORY, seconds=40)
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
    if not name.endswith((".ckpt", ".safetensors")):
        return []
    if program == "evaluate":
        scores = [*world.here.glob("evaluation/test-*/scores.json")]
        if any(json.loads(p.read_text()) != world_scores(world) for p in scores):
            return ["the bit changed the scores, and nobody noticed"]
    if program == "resume" and results(world.here) != results(world.earlier):
        return ["the bit changed the run, and nobody noticed"]
    return []


def world_scores(world: World) -> Any:
    return json.loads((world.earlier / "test_scores.json").read_text())
