"""Callbacks and loggers that a composed configuration names by `_target_`.

Only `train` calls this, with the configuration that Hydra composed from the command line.
Configurations in checkpoints, run directories and exported folders are plain values, and nothing
instantiates them.
"""

import inspect
from functools import partial
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate

from simulmt.errors import UserError
from simulmt.options import Config, asked_of, check_options

TARGET = "_target_"


def make_target(options: Config, where: str, kind: type, later: bool = False) -> Any:
    """Return the object that Hydra makes of options with a `_target_`.

    Args:
        options: `_target_` and the arguments of the class or function that it names.
        where: the key of the options, for messages.
        kind: the class of the object.
        later: True to return a `functools.partial` as well, for options with `_partial_: true`; it
            lacks three arguments, which come before the options.

    Raises:
        UserError: Hydra cannot make the object, or it is of another class, or a partial's option is
            unknown, missing or of another type.
    """
    what = f"{kind.__module__.partition('.')[0]} {kind.__name__}"
    try:
        made = instantiate({**options}, _convert_="all")
    except InstantiationException as error:
        why = " ".join(str(error.__cause__ or error).split())
        raise UserError(f"{where}: {options.get(TARGET)} makes no {what}: {why}") from None
    if not isinstance(made, (kind, partial) if later else kind):
        raise UserError(f"{where}.{TARGET} is {options.get(TARGET)}, but it must name a {what}")
    if isinstance(made, partial):
        parameters = inspect.signature(made.func).parameters
        if all(each.kind != each.VAR_KEYWORD for each in parameters.values()):
            check_options(made.keywords, asked_of(made.func, [*parameters][:3]), where)
    return made
