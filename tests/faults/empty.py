"""Empty texts, such as an unset variable of the shell, in every option that takes text."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any

from omegaconf import OmegaConf

from faults.world import Case, World, complaints, nothing_lost
from simulmt.errors import UserError
from simulmt.programs.cli import VERBS
from simulmt.programs.plain import plain
from small_runs import ROOT, configuration

BLANK = {"empty": "", "a space": " ", "a tab": "\t", "a no-break space": "\u00a0"}
COMMAND = "src/simulmt/__main__.py"


def values(world: World, few: bool) -> list[Case]:
    """Each blank text in each option, alone and in a list."""
    return [
        Case(
            f"{verb} {' '.join(choice)} {option}: {name}",
            partial(check, verb, choice, option, name),
        )
        for verb, choice, option in options()
        for name in BLANK
    ]


def commands(world: World, few: bool) -> list[Case]:
    """The same as commands: nothing is trained, loaded or opened."""
    return [
        Case(f"{verb} {' '.join(choice)} {option}", partial(type_in, world, verb, choice, option))
        for verb, choice, option in [*options(), *OF_HYDRA]
    ]


OF_HYDRA = [("train", (), f"hydra.{name}") for name in ("run.dir", "sweep.dir", "sweep.subdir")]


@cache
def options() -> list[tuple[str, tuple[str, ...], str]]:
    """The options of each verb and of each choice of its groups: verb, choice and option."""
    found = []
    for verb in VERBS:
        config = raw(f"{verb}.yaml")
        found += [(verb, (), option) for option in named(config)]
        for group in groups(config):
            for path in sorted((ROOT / "conf" / group).glob("[a-z]*.yaml")):
                inner = named(raw(f"{group}/{path.name}"), f"{group}.")
                if verb in {"train", "align"} or group != "data":
                    found += [(verb, (f"{group}={path.stem}",), option) for option in inner]
    return found


def raw(name: str) -> dict[str, Any]:
    """A file of `conf`."""
    read = OmegaConf.to_container(OmegaConf.load(ROOT / "conf" / name))
    assert isinstance(read, dict)
    return {str(key): value for key, value in read.items()}


def groups(config: Mapping[str, Any]) -> Iterator[str]:
    """The groups that a configuration composes."""
    for default in config["defaults"]:
        if isinstance(default, dict):
            yield from (name for name in default if "/" not in name and name != "experiments")


def named(config: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The names of the options that are not numbers."""
    for name, value in config.items():
        if name in {"hydra", "defaults"}:
            continue
        if isinstance(value, Mapping):
            yield from named(value, f"{prefix}{name}.")
        elif value is None or isinstance(value, (str, list)):
            yield f"{prefix}{name}"


@cache
def composed(verb: str, choice: tuple[str, ...]) -> Any:
    """The configuration of a verb and a choice."""
    return configuration(verb, *choice)


def check(verb: str, choice: tuple[str, ...], option: str, name: str) -> str:
    """Set an option, alone and in a list; the verb rejects it in a line that names it."""
    for value in (BLANK[name], ["some text", BLANK[name]]):
        config = copy.deepcopy(composed(verb, choice))
        fill(config)
        OmegaConf.update(config, option, value)
        try:
            plain(config)
        except UserError as error:
            if not str(error).startswith(f"{option} is empty") or "\n" in str(error):
                return str(error)
        else:
            return f"{value!r} was accepted"
    return ""


def fill(config: Any) -> None:
    """Give a value to each option that must have one."""
    for name in OmegaConf.missing_keys(config):
        OmegaConf.update(config, name, "some text")


def type_in(world: World, verb: str, choice: tuple[str, ...], option: str) -> str:
    """Set an option to an empty text on the command line."""
    here = world.fresh(world.earlier)
    place = (f"hydra.run.dir={here}",) if verb == "train" and "hydra" not in option else ()
    answer = world.type_in(COMMAND, verb, *choice, *place, f"{option}=")
    said = complaints(answer) + nothing_lost(world)
    if answer.status != 2 or option not in answer.err:
        said.append(f"accepted\n{answer}")
    return "\n".join(said)
