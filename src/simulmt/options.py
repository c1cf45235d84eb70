"""Options of a configuration, checked against the signature of the constructor that takes them.

The type of a parameter says which values it takes: `k: Count` is a whole number of at least 1.
Unknown names, missing names, values of a wrong type and values out of range are errors before
anything is built. A class that is `limited` refuses values out of range in Python, too.
"""

import functools
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import is_dataclass
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import TypeAdapter

from simulmt.errors import UserError

T = TypeVar("T")
Config: TypeAlias = Mapping[str, Any]
"""Plain values by name, as YAML and JSON hold them."""


class Limit(NamedTuple):
    """What a value must satisfy, in words that follow "it must be" and as a test."""

    text: str
    holds: Callable[[Any], bool]


_MOST = Limit("at most 1,000,000,000", lambda n: n <= 10**9)
_FLOAT32 = Limit("at most 1e30 in size, to leave float32 room", lambda x: abs(x) <= 1e30)
Count: TypeAlias = Annotated[int, Limit("at least 1", lambda n: n >= 1), _MOST]
Natural: TypeAlias = Annotated[int, Limit("at least 0", lambda n: n >= 0), _MOST]
Few: TypeAlias = Annotated[int, Limit("from 1 to 1,000", lambda n: 1 <= n <= 1000)]
Width: TypeAlias = Annotated[int, Limit("from 1 to 100,000", lambda n: 1 <= n <= 100_000)]
Tokens: TypeAlias = Annotated[int, Limit("from 1 to 10,000,000", lambda n: 1 <= n <= 10_000_000)]
"""The size of a batch."""
Finite: TypeAlias = Annotated[float, Limit("finite", lambda x: -math.inf < x < math.inf), _FLOAT32]
Weight: TypeAlias = Annotated[
    float, Limit("at least 0, and finite", lambda x: 0 <= x < math.inf), _FLOAT32
]
Positive: TypeAlias = Annotated[
    float, Limit("above 0, and finite", lambda x: 0 < x < math.inf), _FLOAT32
]
Share: TypeAlias = Annotated[float, Limit("at least 0 and below 1", lambda x: 0 <= x < 1)]
FOLDER_NAME = Limit(
    "a name for a folder: up to 60 letters, digits or ._+-, with no dot in front",
    lambda name: (
        not isinstance(name, bool)
        and not (isinstance(name, float) and not math.isfinite(name))  # nan, as Hydra reads it
        and re.fullmatch(r"(?!\.)[\w.+-]{1,60}", str(name)) is not None
    ),
)

SAME_RUN = (
    "name",  # of the folder
    "ckpt_path",  # a resumed run ends as an uninterrupted run does
    "cache",  # the folder of cached files
    "logger",  # the destinations of the metrics
    "trainer.progress",
    "trainer.log_every",  # the interval of logging
    "hydra",  # the run directory
    "plugins",  # where parts come from: a name in the configuration stands for the same part
    "sweep",  # whether a run is trained anew, and how often a failed run is repeated
)
"""Prefixes of the keys that do not affect training."""

_PLAIN: dict[Any, Any] = {
    float: (int, float),
    Path: (str, int, float, PurePath),
    tuple: (list, tuple),
}
"""The types of the plain values that become a value of another type."""


def asked_of(make: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the types of the options that a user chooses: `make`'s parameters without `given`."""
    function = make.__init__ if inspect.isclass(make) else make
    hints = typing.get_type_hints(function, include_extras=True)
    names = [name for name in inspect.signature(make).parameters if name not in given]
    return {name: hints.get(name, Any) for name in names}


def construct(
    make: Callable[..., T],
    options: Mapping[str, Any],
    where: str,
    given: Mapping[str, Any] | None = None,
) -> T:
    """Return the object that `make` returns for the options of a group.

    Args:
        make: a class or function; its signature is the schema of the options.
        options: the options that the user chose.
        where: the name of the group, for messages.
        given: the arguments that the program adds.

    Raises:
        UserError: as for `check`; or `make` raised a ValueError, whose message it then has.
    """
    given = given or {}
    checked = check_options(make, options, where, given)
    try:
        return make(**checked, **given)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


def check_options(
    make: Callable[..., object],
    options: Mapping[str, Any],
    where: str,
    given: Mapping[str, Any] = types.MappingProxyType({}),
) -> dict[str, Any]:
    """Return the options as `construct` passes them, without the arguments that are given.

    Raises:
        UserError: as for `check`.
    """
    return check(options, asked_of(make, given), where, optional_of(make))


def optional_of(make: Callable[..., object]) -> set[str]:
    """Return the names of the parameters of `make` that have a default."""
    parameters = inspect.signature(make).parameters.items()
    return {name for name, p in parameters if p.default is not inspect.Parameter.empty}


def limited(make: type[T]) -> type[T]:
    """Decorate a class whose constructor refuses arguments beyond the limits of their types.

    `construct` checks the options of a configuration; the decorator checks what Python passes.

    Raises:
        UserError: raised by the constructor for an argument out of range.
    """
    initialise: Callable[..., None] = make.__init__

    @functools.wraps(initialise)
    def checked(self: T, *args: Any, **kwargs: Any) -> None:
        kinds = typing.get_type_hints(initialise, include_extras=True)
        given = inspect.signature(initialise).bind_partial(self, *args, **kwargs).arguments
        for name, value in given.items():
            try:
                _within(value, kinds.get(name))
            except ValueError as error:
                raise UserError(f"{type(self).__name__}: {name} is {value!r}; {error}") from None
        initialise(self, *args, **kwargs)

    make.__init__ = checked  # type: ignore[method-assign, assignment]
    return make


def pick(table: Mapping[str, T], name: object, what: str) -> T:
    """Return the entry of a table by its name; `what` names the option in the message.

    Raises:
        UserError: the table has no such name; the message lists its names.
    """
    if not isinstance(name, str) or name not in table:
        raise UserError(f"{what} is {name!r}; choose one of {', '.join(table)}")
    return table[name]


def check(
    options: Mapping[str, Any], asked: Mapping[str, Any], where: str, optional: Collection[str] = ()
) -> dict[str, Any]:
    """Return the options, converted to the types of a schema.

    Args:
        options: the options that the user chose.
        asked: the type of each option that exists.
        where: the name of the group, for messages; "" for the root of the configuration.
        optional: names of the options that may be missing.

    Raises:
        UserError: an option is unknown, missing, of the wrong type or out of range.
    """
    listed, prefix = ", ".join(asked) or "none", f"{where}." if where else ""
    where = where or "the configuration"
    if unknown := sorted(set(options) - set(asked)):
        raise UserError(f"{where} has no option {', '.join(unknown)}; its options are: {listed}")
    if missing := sorted(set(asked) - set(options) - set(optional)):
        raise UserError(
            f"{where} lacks a value for {', '.join(missing)}; its options are: {listed}"
        )
    checked = {}
    for name, value in options.items():
        try:
            checked[name] = convert(value, asked[name])
        except ValueError as error:
            raise UserError(f"{prefix}{name} is {value!r}; {error}") from None
    return checked


def convert(value: Any, kind: Any) -> Any:
    """Return a plain value, as YAML and JSON hold it, as a type.

    An int is also a float, a bool is no number, and a path may be any plain value: a run's folder
    may be called `7`. The type may be a dataclass, of which the value holds the fields.

    Raises:
        ValueError: what the value must be instead; a TypeError or KeyError for a dataclass of which
            the value lacks a field, or that lacks a field of the value.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return _within(convert(value, arguments[0]), kind)
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _or_null(value, arguments[0])
    if origin is Literal:
        return _within(value, kind)
    if kind is Any:
        return value
    plain = Mapping if is_dataclass(kind) else _PLAIN.get(origin or kind, origin or kind)
    wrong_length = origin is tuple and isinstance(value, list) and len(value) != len(arguments)
    if not isinstance(value, plain) or isinstance(value, bool) != (kind is bool) or wrong_length:
        raise ValueError(f"it must be of type {kind if origin else kind.__name__}")
    return _converted(value, kind, origin, arguments)


def _converted(value: Any, kind: Any, origin: Any, arguments: tuple[Any, ...]) -> Any:
    """Return a value that has the right outer type, with its items converted."""
    if kind in (Path, float):
        return Path(str(value)) if kind is Path else _real(value)
    if origin is tuple:
        return tuple(convert(item, part) for item, part in zip(value, arguments, strict=True))
    if origin is list:
        return [convert(item, arguments[0]) for item in value]
    if origin:
        return {arguments[0](key): _item(key, item, arguments[1]) for key, item in value.items()}
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        fields = {name: _item(name, item, hints[name]) for name, item in value.items()}
        return kind(**fields)  # type: ignore[operator]
    return value


def _real(value: float) -> float:
    """Return a number as it is, unless it is whole and beyond what a float holds exactly."""
    if isinstance(value, int) and abs(value) > 1 << 53:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return value


def _item(name: object, value: Any, kind: Any) -> Any:
    try:
        return convert(value, kind)
    except ValueError as error:
        raise ValueError(f"{name} is {str(value)[:40]!r}; {error}") from None


def _within(value: Any, kind: Any) -> Any:
    """Return a value of a type; ValueError if it is out of the type's range."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal and value not in arguments:
        raise ValueError(f"choose one of {', '.join(arguments)}")
    for limit in arguments[1:] if origin is Annotated else ():
        if not isinstance(limit, Limit):
            TypeAdapter(kind).validate_python(value)
        elif not limit.holds(value):
            raise ValueError(f"it must be {limit.text}")
    for item in value.values() if origin is dict else ():
        _within(item, arguments[1])
    return value


def _or_null(value: Any, kind: Any) -> Any:
    try:
        return convert(value, kind)
    except ValueError as error:
        raise ValueError(f"{error}, or null") from None


def flat_options(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested configuration as a flat one: `{"mechanism.k": 3, ...}`."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        flat |= flat_options(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat
