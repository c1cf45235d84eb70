"""A constructor's signature is the schema of the options that it is given.

Names that it does not know, names that it lacks and values of another type are errors which list
what there is, before anything is built.
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
    "ckpt_path",  # an interrupted run ends as an uninterrupted one does
    "cache",  # where files lie
    "logger",  # who is told
    "trainer.progress",
    "trainer.log_every",  # how often
    "hydra",  # where the run is written
    "sweep",  # whether and how often it is tried
)
"""Where the keys begin that do not change what is trained."""


def asked_of(make: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a user chooses, with their types: all but what the program gives."""
    hints = typing.get_type_hints(make.__init__ if inspect.isclass(make) else make)
    names = [name for name in inspect.signature(make).parameters if name not in given]
    return {name: hints.get(name, Any) for name in names}


def construct(
    make: Callable[..., T],
    options: Mapping[str, Any],
    where: str,
    given: Mapping[str, Any] | None = None,
) -> T:
    """Call `make` with the options of a group and what the program itself gives.

    Raises:
        UserError: an option that is unknown, missing or of the wrong type; or a ValueError of
            `make`, whose message is passed on.
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
    """What a name stands for.

    Raises:
        UserError: the table has no such name; the message lists those it has.
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
    """Compare options with the names and types that are asked for; `where` is "" at the root."""
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
    """Whether a plain value is of a type; an int is a float too, a bool is no number."""
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
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, int | float if hint is float else hint)


def flat_options(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A configuration without nesting: `{"mechanism.k": 3, ...}`."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        found |= flat_options(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return found
