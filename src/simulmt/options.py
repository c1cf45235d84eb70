"""Options of a configuration, checked against the signature of the constructor that takes them.

Unknown names, missing names and values of a wrong type are errors before anything is built; each
error lists the options that exist.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias, TypeVar

from simulmt.errors import UserError

T = TypeVar("T")
Config: TypeAlias = Mapping[str, Any]
"""Plain values by name, as YAML and JSON hold them."""
SAME_RUN = (
    "ckpt_path",  # a resumed run ends as an uninterrupted run does
    "cache",  # the folder of cached files
    "logger",  # the destinations of the metrics
    "trainer.progress",
    "trainer.log_every",  # the interval of logging
    "hydra",  # the run directory
    "sweep",  # whether a run is trained anew, and how often a failed run is repeated
)
"""Prefixes of the keys that do not affect training."""


def asked_of(make: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The types of the options that a user chooses: the parameters of `make` without `given`."""
    hints = typing.get_type_hints(make.__init__ if inspect.isclass(make) else make)
    names = [name for name in inspect.signature(make).parameters if name not in given]
    return {name: hints.get(name, Any) for name in names}


def construct(
    make: Callable[..., T],
    options: Mapping[str, Any],
    where: str,
    given: Mapping[str, Any] | None = None,
) -> T:
    """The object that `make` returns for the options of a group.

    Args:
        make: a class or function; its signature is the schema of the options.
        options: the options that the user chose.
        where: the name of the group, for messages.
        given: the arguments that the program adds.

    Raises:
        UserError: an option is unknown, missing or of the wrong type, or `make` raised a
            ValueError; then the message is that of the ValueError.
    """
    given = given or {}
    parameters = inspect.signature(make).parameters.items()
    optional = {name for name, p in parameters if p.default is not inspect.Parameter.empty}
    check(options, asked_of(make, given), where, optional)
    try:
        return make(**options, **given)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


def pick(table: Mapping[str, T], name: object, what: str) -> T:
    """The entry of a table by its name; `what` names the option in the message.

    Raises:
        UserError: the table has no such name; the message lists its names.
    """
    if not isinstance(name, str) or name not in table:
        raise UserError(f"{what} is {name!r}; choose one of {', '.join(table)}")
    return table[name]


def check(
    options: Mapping[str, Any],
    asked: Mapping[str, Any],
    where: str,
    optional: Collection[str] = (),
) -> None:
    """Refuse options that do not match a schema.

    Args:
        options: the options that the user chose.
        asked: the type of each option that exists.
        where: the name of the group, for messages; "" for the root of the configuration.
        optional: names of the options that may be missing.

    Raises:
        UserError: an option is unknown, missing or of the wrong type.
    """
    listed, prefix = ", ".join(asked) or "none", f"{where}." if where else ""
    where = where or "the configuration"
    if unknown := sorted(set(options) - set(asked)):
        raise UserError(f"{where} has no option {', '.join(unknown)}; its options are: {listed}")
    if missing := sorted(set(asked) - set(options) - set(optional)):
        raise UserError(
            f"{where} lacks a value for {', '.join(missing)}; its options are: {listed}"
        )
    for name, value in options.items():
        if not _fits(value, asked[name]):
            wanted = getattr(asked[name], "__name__", asked[name])
            raise UserError(f"{prefix}{name} is {value!r}; it must be of type {wanted}")


def _fits(value: Any, hint: Any) -> bool:
    """Whether a plain value has a type; an int is also a float, a bool is not a number."""
    if hint is Any:
        return True
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, one) for one in typing.get_args(hint))
    if origin is tuple:
        parts = typing.get_args(hint)
        return (
            isinstance(value, list | tuple)
            and len(value) == len(parts)
            and all(_fits(v, part) for v, part in zip(value, parts, strict=True))
        )
    if origin is dict:
        key, item = typing.get_args(hint)
        return isinstance(value, Mapping) and all(
            _fits(k, key) and _fits(v, item) for k, v in value.items()
        )
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, int | float if hint is float else hint)


def flat_options(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested configuration as a flat one: `{"mechanism.k": 3, ...}`."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        found |= flat_options(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return found
