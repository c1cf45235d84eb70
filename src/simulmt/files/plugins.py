"""Plugins: other packages that add parts (`simulmt.parts`) and configuration.

A plugin is a module. An entry point of the group `simulmt.plugins` or the command line
(`plugins=[my_package]`) names it. Hydra also searches the folder `conf` beside the module's file.
simulmt imports no other module of a user; a checkpoint cannot make it import one.
"""

import os
import re
import sys
import textwrap
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import entry_points, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path

import simulmt
from simulmt.errors import UserError
from simulmt.system.ending import Ended

ENTRY_POINTS = "simulmt.plugins"
CONF = "conf"
MODULE = r"[\w.]+"
"""The names of modules."""
_PACKAGE = Path(simulmt.__file__).resolve().parent
HOME = _PACKAGE if (_PACKAGE / CONF).is_dir() else _PACKAGE.parents[1]
"""The folder with simulmt's `conf`: the package or, in a clone, its top."""


@cache
def installed() -> tuple[str, ...]:
    """Return the modules that the entry points of installed packages name, in alphabetic order."""
    return tuple(sorted({point.module for point in entry_points(group=ENTRY_POINTS)}))


def named(words: Sequence[str]) -> list[str]:
    """Return the plugins that a command line names.

    Raises:
        UserError: `plugins=` is not a list.
    """
    modules: list[str] = []
    for word in words:
        if re.match(r"\+*plugins=", word):
            listed = re.fullmatch(r"\+*plugins=\[([\w., '\"]*)\]", word)
            if not listed:
                raise UserError(
                    f"{word!r} is not a list of packages; write plugins=[PACKAGE] or plugins=[A,B]"
                )
            modules += re.findall(MODULE, listed[1])
    return modules


def locate(module: str) -> Path:
    """Return the file of a plugin; for a package, its `__init__.py`.

    A module that the user named is also searched in the current directory, last.

    Raises:
        UserError: there is no such module, or a package above it cannot be imported.
    """
    if module not in installed() and (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
    try:
        spec = find_spec(module)
    except BaseException as error:  # of any kind: it imports the packages above the module
        raise broken(module, error) from error
    if spec is None or spec.origin is None:
        remedy = "install or repair it, start in its folder, or add that folder to PYTHONPATH"
        raise UserError(f"{called(module)}: there is no such package; {remedy}")
    return Path(spec.origin)


def called(module: str) -> str:
    """Return the name of a plugin in messages: as the user typed it unless it is installed."""
    return f"installed plugin {module}" if module in installed() else f"plugins={module}"


def broken(module: str, error: BaseException) -> UserError:
    """Return the error for a plugin that cannot be imported; raise that of a signal."""
    if isinstance(error, KeyboardInterrupt | Ended):
        raise error
    why = textwrap.shorten(f"{type(error).__name__}: {error}", 160, placeholder=" ...")
    return UserError(
        f"{called(module)} cannot be imported ({why}); `python -c 'import {module}'` shows where"
    )


def conf_folders(modules: Sequence[str]) -> dict[str, Path]:
    """Return the configuration folders of the installed plugins and of `modules`, by module.

    An installed plugin that cannot be found is left out: the user may not need it.

    Raises:
        UserError: one of `modules` cannot be found.
    """
    folders = dict[str, Path]()
    for name in dict.fromkeys((*installed(), *modules)):
        with nullcontext() if name in modules else suppress(UserError):
            folders[name] = locate(name).parent / CONF
    return {name: folder for name, folder in folders.items() if folder.is_dir()}


def version_of(module: str) -> str:
    """Return the version of a plugin, such as `0.1.0+1a2b3c4d`.

    A digest of the code follows the version of the package, which is empty if none is installed.
    """
    packages, file = packages_distributions().get(module.partition(".")[0], []), locate(module)
    depth = module.count(".") + (file.name == "__init__.py")  # of the file in its package
    files = sorted(file.parents[depth - 1].rglob("*.py")) if depth else [file]
    digest = sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:8]
    return f"{version(packages[0]) if packages else ''}+{digest}"
