"""The texts of `simulmt --help` and `simulmt VERB --help`: the configuration files themselves."""

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import yaml

import simulmt
from simulmt.errors import UserError
from simulmt.files.plugins import CONF, HOME, conf_folders, named

_PRESETS = "experiments"
_OTHERS = """\
simulmt VERB --help        the options of a verb, with their defaults
simulmt --version
simulmt -sc install=bash   the completion of bash, or of fish: eval "$(simulmt -sc install=bash)"\
"""
SWEPT = ("train", "evaluate")
"""The verbs with a use for -m."""
_SWEEP = "  -m, --multirun           one run for each combination of the values in KEY=A,B,..."
_FLAGS = """\
  --cfg job [--resolve]    print the configuration and stop; --resolve fills in references
  --help GROUP=CHOICE      show the file of that choice, too\
"""


def usage(verbs: Sequence[str]) -> str:
    """Return the text of `simulmt --help`: every verb and what it does."""
    first = (simulmt.__doc__ or "simulmt").splitlines()[0]
    heads = ("\n".join(head(HOME / CONF / f"{verb}.yaml")) for verb in verbs)
    return "\n\n".join([first, *heads, _OTHERS])


def explain(verb: str, words: Sequence[str]) -> str:
    """Return the text of `simulmt VERB --help`: its groups with their choices, and its files.

    Args:
        verb: the verb.
        words: the other words; those like `mechanism=milk` add the file of that choice, and
            `plugins=[...]` adds the choices of plugins.

    Raises:
        UserError: a choice does not exist.
    """
    folders = [HOME / CONF, *conf_folders(named(words)).values()]
    files = [HOME / CONF / f"{verb}.yaml"]
    groups = groups_of(files[0])
    flags = f"{_SWEEP}\n{_FLAGS}" if verb in SWEPT else _FLAGS
    texts = [flags, *(f"{name}: {', '.join(_choices(folders, name))}" for name in groups)]
    for word in words:
        group, _, choice = word.partition("=")
        if group in groups:
            places = [folder / group / f"{choice}.yaml" for folder in folders]
            if not (found := [place for place in places if place.is_file()]):
                known = ", ".join(_choices(folders, group))
                raise UserError(f"{group} has no choice {choice!r}; choose one of {known}")
            files.append(found[0])
    return "\n\n".join(
        [*texts, *(f"{path}:\n\n{path.read_text(encoding='utf-8').rstrip()}" for path in files)]
    )


def head(path: Path) -> list[str]:
    """Return the lines of the comment at the top of a file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("# ") for line in takewhile(lambda line: line[:1] == "#", lines)]


def groups_of(path: Path) -> list[str]:
    """Return the groups that the defaults list of a file names."""
    defaults = yaml.safe_load(path.read_text(encoding="utf-8"))["defaults"]
    names = [name for entry in defaults if isinstance(entry, dict) for name in entry]
    return [name for name in names if not name.startswith("override ")]


def _choices(folders: Sequence[Path], group: str) -> list[str]:
    """Return the choices of a group; files whose names begin with `_` are shared by others."""
    found = {
        str(path.relative_to(folder / group).with_suffix(""))
        for folder in folders
        for path in (folder / group).rglob("[!_]*.yaml")
        if group != _PRESETS or "@package" in path.read_text(encoding="utf-8").partition("\n")[0]
    }
    return sorted(found)
