"""Absurd values of every numeric option of `conf`: refused in one line, or of use."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from faults.world import CHOSEN, NEW, Case, World, complaints, nothing_lost
from simulmt.errors import UserError
from simulmt.programs.plain import plain
from simulmt.programs.run_spec import RunSpec
from small_runs import ROOT, configuration

GROUPS = ("data", "mechanism", "model", "teacher", "optim", "trainer", "logger", "objective")
ABSURD = {
    **{text: text for text in ("0", "-1", "1e300", "-1e300", "nan", "inf", "1e-300")},
    **{"10^9": str(10**9), "10^30": str(10**30), "10^400": str(10**400)},
    **{text: text for text in ("0.5", "true", "some text", "null", "[]", "[1,2]", "{a: 1}", "''")},
}
"""What an option is set to, by name."""
SECONDS, MEMORY = 15, 3 << 30
"""The limits of a command. One that still works at the end of its time gets SIGTERM."""


def values(world: World, few: bool) -> list[Case]:
    """Every numeric option of every choice of a group, with `train.py`'s checks alone."""
    cases = []
    for choice, option in options(world, few):
        for name in ABSURD:
            title = f"{' '.join(choice)} {option}={name}"
            cases.append(Case(title, partial(check, choice, option, name)))
    return cases


def commands(world: World, few: bool) -> list[Case]:
    """Whole commands, of the values that `train.py`'s checks let pass."""
    cases = []
    for choice, option in options(world, few):
        for name in ABSURD:
            title = f"train.py {' '.join(choice)} {option}={name}"
            cases.append(Case(title, partial(replace, world, choice, option, name)))
    return cases


def options(world: World, few: bool) -> Iterator[tuple[tuple[str, ...], str]]:
    """The numeric options of no group and, unless `few`, of each choice of each group."""
    for option in numeric(root("train")):
        yield (), option
    if few:
        return
    needed = {
        "pretrained": (f"teacher.checkpoint={world.earlier}",),
        "huggingface": (f"data.path={world.text}", "data.source=de", "data.target=en"),
        "text": (f"data.root={world.text}", "data.source=de", "data.target=en"),
    }
    for group in GROUPS:
        for path in sorted((ROOT / "conf" / group).glob("*.yaml")):
            choice = (f"{group}={path.stem}", *needed.get(path.stem, ()))
            for option in numeric(checked(choice)[group]):
                yield choice, f"{group}.{option}"


def root(program: str) -> Any:
    """The options of a program that belong to no group."""
    return OmegaConf.to_container(OmegaConf.load(ROOT / "conf" / f"{program}.yaml"))


def numeric(config: Mapping[str, Any]) -> Iterator[str]:
    """The names of the options that are numbers, or null, which stands for one in many."""
    for name, value in config.items():
        if name in {"hydra", "defaults", "ckpt_path", "init_from", "experiments"}:
            continue
        if isinstance(value, Mapping):
            yield from (f"{name}.{inner}" for inner in numeric(value))
        elif value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            yield str(name)


@cache
def checked(choice: tuple[str, ...]) -> dict[str, Any]:
    """The configuration of a choice."""
    return plain(configuration("train", *choice))


def refusal(choice: tuple[str, ...], option: str, name: str) -> str:
    """Set an option, and return how `train.py`'s checks refuse it; "" if they do not."""
    config = copy.deepcopy(checked(choice))
    *groups, last = option.split(".")
    group = config
    for part in groups:
        group = group[part]
    group[last] = OverridesParser.create().parse_override(f"x={ABSURD[name]}").value()
    try:
        RunSpec.of(config)
    except UserError as error:
        return str(error)
    return ""


def check(choice: tuple[str, ...], option: str, name: str) -> str:
    """Check a value as `train.py` does, in a moment and in one line."""
    began = time.monotonic()
    try:
        said = refusal(choice, option, name)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if "\n" in said or len(said) > 1000:
        return f"{said.count(chr(10)) + 1} lines, {len(said)} characters: {said}"
    taken = time.monotonic() - began
    return f"took {taken:.0f} s" if taken > 5 else ""


def replace(world: World, choice: tuple[str, ...], option: str, name: str) -> str | None:
    """Train in the place of an earlier run, as long as it takes or a while; None if refused."""
    with suppress(Exception):
        if refusal(choice, option, name):
            return None
    override = f"{option}={ABSURD[name]}"
    world.fresh(world.earlier)
    fitting = [each for each in CHOSEN if not override.startswith(f"{each.partition('=')[0]}=")]
    if any(each.startswith(("model=", "mechanism=", "optim=", "objective=")) for each in choice):
        groups = [each.partition("=")[0] for each in choice]
        fitting = [each for each in fitting if each.partition("=")[0] not in groups]
    places = (f"hydra.run.dir={world.here}", f"cache={world.cache}")
    command = ("train.py", *fitting, *choice, NEW, *places, override)
    done = world.type_in(*command, seconds=SECONDS, memory=MEMORY)
    said = complaints(done, {2, *({143, -15} if done.late else ())}, late=True)
    return "\n".join(said + [f"{line}\n{done}" for line in nothing_lost(world)])
