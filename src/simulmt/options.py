"""Options of a configuration, checked against the signature of the constructor that takes them.

The type of a parameter holds its bounds as data: `k: Annotated[int, Ge(1)]` is a whole number of at
least 1. Help, checks and pages read the same bounds. Unknown names, missing names, values of a
wrong type and values out of range are errors before anything is built.
"""

import inspect
import math
import os
import re
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypeAlias, TypeVar

import pydantic
from annotated_types import Ge, Gt, Le, Lt
from pydantic_core import ErrorDetails, to_json
from typing_extensions import TypedDict

from simulmt.errors import UserError

T = TypeVar("T")
Config: TypeAlias = Mapping[str, Any]
"""Plain values by name, as YAML and JSON hold them."""
STRICT = pydantic.ConfigDict(
    strict=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True
)
"""How pydantic reads options: no conversions, no unknown names, no NaN or infinity."""

Count: TypeAlias = Annotated[int, Ge(1), Le(1_000_000_000)]
Natural: TypeAlias = Annotated[int, Ge(0), Le(1_000_000_000)]
Few: TypeAlias = Annotated[int, Ge(1), Le(1000)]
Width: TypeAlias = Annotated[int, Ge(1), Le(100_000)]
Tokens: TypeAlias = Annotated[int, Ge(1), Le(10_000_000)]
"""The size of a batch."""
Finite: TypeAlias = Annotated[float, Ge(-1e30), Le(1e30)]  # float32 holds 3e38
Weight: TypeAlias = Annotated[float, Ge(0), Le(1e30)]
Positive: TypeAlias = Annotated[float, Gt(0), Le(1e30)]
Share: TypeAlias = Annotated[float, Ge(0), Lt(1)]
Chance: TypeAlias = Annotated[float, Ge(0), Le(1)]


def _in_order(limits: tuple[float, float]) -> tuple[float, float]:
    if limits[0] > limits[1]:
        raise ValueError("it must be [least,most]")
    return limits


InOrder = pydantic.AfterValidator(_in_order)
"""Of two numbers: the first is not above the second."""
Range: TypeAlias = Annotated[tuple[Finite, Finite], InOrder]
"""The least and the greatest value."""


def _listed(value: object) -> object:
    return [] if value is None else value if isinstance(value, list) else [value]


OneOrMany: TypeAlias = Annotated[list[T], pydantic.BeforeValidator(_listed)]
"""A list, or one value, or null for none."""

FOLDER_NAME = "a name for a folder: up to 60 letters, digits or ._+-, with no dot in front"


def is_folder_name(name: object) -> bool:
    """Return True if a name, which may be a number, is a valid name for a folder."""
    return re.fullmatch(r"(?!\.)[\w.+-]{1,60}", str(name)) is not None


def _folder_name(name: object) -> str:
    named = type(name) in (str, int) or (isinstance(name, float) and math.isfinite(name))
    if not named or not is_folder_name(name):
        raise ValueError(f"it must be {FOLDER_NAME}")
    return str(name)


FolderName: TypeAlias = Annotated[str, pydantic.BeforeValidator(_folder_name)]
"""A name that a user may also type as a number."""

SAME_RUN = (
    "name",  # of the folder
    "ckpt_path",  # a resumed run ends as an uninterrupted run does
    "init_partial",  # which runs are rejected
    "cache",  # the folder of cached files
    "logger",  # the destinations of the metrics
    "trainer.progress",
    "trainer.log_every",  # the interval of logging
    "trainer.recompute",  # memory against time
    "hydra",  # the run directory
    "plugins",  # the modules of parts, whose names in the configuration stay the same
    "sweep",  # which runs are retrained, and how often a failed run is repeated
)
"""Keys that do not affect training, and neither do those below them."""


def is_below(key: str, names: Iterable[str]) -> bool:
    """Return True if a key is one of some names, or below one: `logger.mode` is below `logger`."""
    return any(f"{key}.".startswith(f"{name}.") for name in names)


def asked_of(make: Callable[..., Any], given: Collection[str] = ()) -> dict[str, Any]:
    """Return the types of the options that a user chooses: `make`'s parameters without `given`.

    An option that is a keyword of Python, such as `lambda`, is the parameter `lambda_`.
    """
    function = make.__init__ if inspect.isclass(make) else make
    hints = typing.get_type_hints(function, include_extras=True)
    asked = {}
    for name, parameter in inspect.signature(make).parameters.items():
        required = parameter.default is inspect.Parameter.empty
        kind = hints.get(name, Any)
        option = word if iskeyword(word := name.removesuffix("_")) else name
        if option not in given:
            asked[option] = kind if required else NotRequired[kind]
    return asked


def construct(
    make: Callable[..., T], options: Config, where: str, given: Config | None = None
) -> T:
    """Return the object that `make` returns for the options of a group.

    Args:
        make: a class or function; its signature is the schema of the options.
        options: the options that the user chose.
        where: the name of the group, for messages.
        given: the arguments that the program adds.

    Raises:
        UserError: an option is unknown, missing, of the wrong type or out of range.
    """
    given = given or {}
    checked = check_options(options, asked_of(make, given), where)
    own = {f"{name}_" if iskeyword(name) else name: value for name, value in checked.items()}
    return make(**own, **given)


def construct_own(
    make: Callable[..., T], options: Config, where: str, given: Config | None = None
) -> T:
    """Return the object that `make` returns for those options of a group that it names."""
    asked = asked_of(make, given or {})
    return construct(make, {n: options[n] for n in asked if n in options}, where, given)


def limited(make: type[T]) -> type[T]:
    """Decorate a class, so that its constructor checks arguments as `construct` checks options.

    Raises:
        ValidationError: raised by the constructor; a ValueError of pydantic.
    """
    make.__init__ = pydantic.validate_call(config=STRICT)(make.__init__)  # type: ignore[method-assign]
    return make


def pick(table: Mapping[str, T], name: object, what: str, also: str = "") -> T:
    """Return the entry of a table by its name; `what` names the option in the message.

    `also` ends the message.

    Raises:
        UserError: the table has no such name; the message lists its names.
    """
    if not isinstance(name, str) or name not in table:
        raise UserError(f"{what} is {name!r}; choose one of {', '.join(table)}{also}")
    return table[name]


def check_options(options: Config, asked: Config, where: str) -> dict[str, Any]:
    """Return the options, as objects of the types of a schema.

    Args:
        options: plain values, as YAML and JSON hold them.
        asked: the type of each option; `NotRequired[T]` for one that may be missing.
        where: the name of the group, for messages; "" for the root of the configuration.

    Raises:
        UserError: an option is unknown, missing, of the wrong type or out of range, or names a
            device or a named pipe.
    """
    group = pydantic.with_config(STRICT)(TypedDict("group", dict(asked)))  # type: ignore[operator]
    try:
        checked: dict[str, Any] = _validated(pydantic.TypeAdapter(group), options)
    except pydantic.ValidationError as error:
        # a misspelt option is unknown, and the right one is missing: the former is more helpful
        order = {"extra_forbidden": 0, "int_type": 2}  # of `int | float`, that of the number
        first = min(error.errors(), key=lambda each: order.get(each["type"], 1))
        raise UserError(_explained(first, asked, where)) from None
    checked = {name: _at_home(value) for name, value in checked.items()}
    for name, value in checked.items():
        for path in value.values() if isinstance(value, dict) else [value]:
            if isinstance(path, Path) and _is_endless(path):
                raise UserError(
                    f"{where}{'.' * bool(where)}{name} is {path}, a device or a named pipe: give a "
                    "file or a folder"
                )
    return checked


def _at_home(value: Any) -> Any:
    """Return a path with its `~` as the home directory, also in a dictionary."""
    if isinstance(value, dict):
        return {name: _at_home(each) for name, each in value.items()}
    return Path(os.path.expanduser(value)) if isinstance(value, Path) else value


def _is_endless(path: Path) -> bool:
    """Return True for a device or a named pipe; a shell's `<(command)` resolves to no path."""
    try:
        real = path.resolve()
        return real.exists() and not (real.is_file() or real.is_dir())
    except (OSError, RuntimeError, ValueError):  # whoever opens the path reports these
        return False


def parse_json(adapter: pydantic.TypeAdapter[T], text: str | bytes) -> T:
    """Return what a line of JSON from outside holds.

    Raises:
        UserError: the line is not valid; the message has the first field that is wrong.
    """
    try:
        return adapter.validate_json(text, strict=True)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))  # empty for a fault of the whole line
        why = f"{first['msg']} (got {first['input']!r:.80})"
        raise UserError(f"{name}: {why}" if name else why) from None


def convert(value: object, kind: type[T]) -> T:
    """Return plain values, as JSON holds them, as a type such as a dataclass.

    Raises:
        ValueError: pydantic's error, with the part that is of another type or out of range.
    """
    return _validated(pydantic.TypeAdapter(kind), value)


_BRANCH = re.compile(r"(constrained-)?(int|float|str|bool)|.+\[.*\]")
"""Pydantic's names for the branches of a union, in the location of an error."""


def _validated(adapter: pydantic.TypeAdapter[T], value: object) -> T:
    """Validate by JSON's rules: a list may be a tuple, a text a path, a whole number a float."""
    text = to_json(value, inf_nan_mode="constants")
    return adapter.validate_json(text, strict=True, extra="forbid")


def _explained(error: ErrorDetails, asked: Config, where: str) -> str:
    parts, listed = map(str, error["loc"]), ", ".join(asked) or "none"
    name = ".".join(part for part in parts if not _BRANCH.fullmatch(part))
    group = where or "the configuration"
    if error["type"] == "extra_forbidden" and "." not in name:
        return f"{group} has no option {name}; its options are: {listed}"
    if error["type"] == "missing" and "." not in name:
        return f"{group} lacks a value for {name}; its options are: {listed}"
    said = error["msg"].removeprefix("Value error, ").replace("Input should", "it must")
    option = f"{where}{'.' * bool(where)}{name}"
    if error["input"] is None:
        return f"{option} has no value: set {option}=VALUE"
    return f"{option} is {error['input']!r}; {said}"


def flat_options(config: Config, prefix: str = "") -> dict[str, Any]:
    """Return a nested configuration as a flat one: `{"mechanism.k": 3, ...}`."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        flat |= flat_options(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat
