"""The keys of the configuration files, each with the comment that explains it.

The comments are the one source of the help and of the shell's completion. A key without a comment
has the explanation of the file's parent, or else of the default choice of its group.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import yaml

from simulmt.errors import UserError

REQUIRED = "???"
"""The value of a key that the user must set."""
SELF = "_self_"
"""The file itself, in the list of its parents."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_GLOBAL = "# @package _global_"
_PRESETS = "experiments"
"""The group of presets: a file there is a choice only if its first line says `_GLOBAL`."""


class Key(NamedTuple):
    """A key of a configuration file."""

    name: str
    """The key as a user types it, with dots."""
    value: str | None
    """The value in the file; None for a key that only has keys below it."""
    why: str
    """The explanation, in one line; "" if there is none."""


class Group(NamedTuple):
    """A group of the defaults list."""

    name: str
    default: str
    """The default choice, `null` for none."""
    why: str


class Page(NamedTuple):
    """What one file says."""

    header: tuple[str, ...]
    """The lines of the comment at the top of the file."""
    parents: tuple[str, ...]
    """The files that this one inherits from, and `_self_`; the last one prevails."""
    groups: tuple[Group, ...]
    keys: tuple[Key, ...]

    @property
    def summary(self) -> str:
        """The first sentence of the header."""
        return re.split(r"(?<=\.) (?=[A-Z])", " ".join(self.header))[0]


def read(path: Path) -> Page:
    """Return what a file says.

    Raises:
        UserError: the file cannot be read, or is not YAML.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        root = yaml.compose(text, Loader=_LOADER)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"{path} cannot be read as YAML: {error}; correct or remove it") from None
    file, keys, defaults = _File(text), list[Key](), []
    for key, value in root.value if isinstance(root, yaml.MappingNode) else []:
        if key.value == "defaults":
            defaults = value.value
        elif key.value != "hydra" and isinstance(key, yaml.ScalarNode):
            keys += file.keys(key, value)
    scalars = [node.value for node in defaults if isinstance(node, yaml.ScalarNode)]
    parents = [name for name in scalars if "@" not in name]  # keys of another group
    return Page(
        header=file.header,
        parents=tuple(parents if SELF in parents else [*parents, SELF]),
        groups=tuple(group for node in defaults for group in file.groups(node)),
        keys=tuple(keys),
    )


def find(folders: Sequence[Path], name: str) -> Path:
    """Return the file of a program (`train`) or of a choice (`mechanism/milk`).

    Raises:
        UserError: no folder has it.
    """
    group, _, choice = name.partition("/")
    for place in _places(folders, group):
        if (path := place.parent / f"{name}.yaml").is_file():
            return path
    known = ", ".join(choices(folders, group)) or "nothing: there is no such group"
    raise UserError(f"{group} has no choice {choice!r}; choose from {known}")


def choices(folders: Sequence[Path], group: str) -> list[str]:
    """Return the choices of a group in all folders, those in subfolders last."""
    names = set()
    for root in _places(folders, group):
        for path in root.rglob("*.yaml"):
            name = path.relative_to(root).with_suffix("").as_posix()
            shared = any(part.startswith("_") for part in name.split("/"))
            if not shared and (group != _PRESETS or _is_preset(path)):
                names.add(name)
    return sorted(names, key=lambda name: ("/" in name, name))


def keys_of(folders: Sequence[Path], name: str) -> dict[str, Key]:
    """Return the keys of a file and its parents by name, each with the last value and comment."""
    page, keys = read(find(folders, name)), dict[str, Key]()
    for parent in page.parents:
        other = parent[1:] if parent.startswith("/") else f"{name.rpartition('/')[0]}/{parent}"
        found = page.keys if parent == SELF else keys_of(folders, other).values()
        for key in found:
            known = keys.get(key.name)
            keys[key.name] = key._replace(why=key.why or (known.why if known else ""))
    return keys


def keys_of_choice(folders: Sequence[Path], group: Group, choice: str) -> list[Key]:
    """Return the keys of a choice as a user types them; a preset has none of its own."""
    if group.name == _PRESETS:
        return []
    known = {} if group.default == "null" else keys_of(folders, f"{group.name}/{group.default}")
    return [
        Key(f"{group.name}.{key.name}", key.value, key.why or getattr(known.get(name), "why", ""))
        for name, key in keys_of(folders, f"{group.name}/{choice}").items()
    ]


def chosen(groups: Sequence[Group], words: Sequence[str]) -> list[tuple[Group, str]]:
    """Return the choice of each group: the default, or what words such as `mechanism=milk` say.

    A group has several choices in a sweep, and none if its choice is null.
    """
    said = dict(word.lstrip("+").split("=", 1) for word in words if "=" in word)
    pairs = []
    for group in groups:
        choice = said.get(group.name, group.default)
        plain = re.fullmatch(r"[\w/.-]+(,[\w/.-]+)*", choice)  # unlike glob(*)
        for name in (choice if plain else group.default).split(","):
            if name != "null":
                pairs.append((group, name))
    return pairs


def _places(folders: Sequence[Path], group: str) -> list[Path]:
    """Return the folders of a group; simulmt's presets are beside its configuration."""
    presets = [folders[0].parent / group] if group == _PRESETS else []
    return [*(folder / group for folder in folders), *presets]


def _is_preset(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline().startswith(_GLOBAL)


class _File:
    """The text of a file, for the comments, which YAML's nodes do not have."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = re.split("[\n\x85\u2028\u2029]", text)  # as YAML does
        comments = list(takewhile(lambda line: line.startswith("#"), self.lines))
        self.begin = len(comments)
        self.header = tuple(c.strip("# ") for c in comments if not c.startswith("# @package"))

    def keys(self, key: yaml.Node, value: yaml.Node, prefix: str = "") -> Iterator[Key]:
        """Yield a key and all keys below it, except keys whose values refer to others."""
        name = f"{prefix}{key.value}"
        if isinstance(value, yaml.MappingNode):
            yield Key(name, None, self.comment(key, value))
            for inner, below in value.value:
                yield from self.keys(inner, below, f"{name}.")
        elif "${" not in (written := self.written(value)):
            yield Key(name, written, self.comment(key, value))

    def groups(self, node: yaml.Node) -> Iterator[Group]:
        """Yield the group of an item of the defaults list; an override is not a group."""
        for key, value in node.value if isinstance(node, yaml.MappingNode) else []:
            if re.fullmatch(r"[\w/]+", key.value):
                yield Group(key.value, self.written(value), self.comment(key, value))

    def written(self, node: yaml.Node) -> str:
        """Return a value as a user would type it."""
        if isinstance(node, yaml.SequenceNode):
            return f"[{','.join(map(self.written, node.value))}]"
        raw = self.text[node.start_mark.index : node.end_mark.index]
        return " ".join(raw.split()) or "null"

    def comment(self, key: yaml.Node, value: yaml.Node) -> str:
        """Return the comment after a value, with the aligned lines below, or the one above."""
        row, end = key.start_mark.line, value.end_mark
        here = end.line == row and end.column > key.end_mark.column
        column = end.column if here else key.end_mark.column
        behind = re.match(r"\s*[:,]?\s*(?=#)", self.lines[row][column:])
        if behind:
            column += behind.end()
            below = self._comments(range(row + 1, len(self.lines)), column)
            return " ".join([self.lines[row][column:].lstrip("# "), *below]).strip()
        above = self._comments(range(row - 1, self.begin - 1, -1), key.start_mark.column)
        return " ".join(reversed(above))

    def _comments(self, rows: range, column: int) -> list[str]:
        """Return the comments of the first rows, as long as each stands alone in this column."""
        found = []
        for row in rows:
            if not re.match(rf" {{{column}}}#", self.lines[row]):
                break
            found.append(self.lines[row].strip("# "))
        return found
