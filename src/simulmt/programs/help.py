"""The texts of `simulmt --help` and `simulmt VERB --help`, from the configuration files."""

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import simulmt
from simulmt.programs.keys import (
    REQUIRED,
    Group,
    Key,
    Page,
    choices,
    chosen,
    find,
    keys_of,
    keys_of_choice,
    read,
)

FLAGS = (
    ("simulmt VERB --help", "explain the keys of a verb, with their defaults"),
    ("simulmt --version", "print the version"),
    ("simulmt --completion SHELL", "print its completion for bash, zsh or fish; in ~/.bashrc:"),
    ("", 'eval "$(simulmt --completion bash)"'),
    ("", "in config.fish: simulmt --completion fish | source"),
)
FLAGS_OF_VERB = (
    ("-m, --multirun", "one run for each combination of the values in KEY=A,B,..."),
    ("--cfg job [--resolve]", "print the configuration and stop; --resolve fills in references"),
    ("--help", "this text; with GROUP=CHOICE it explains the keys of that choice"),
)
WIDEST_NAME = 34
"""Longer names stand on a line of their own, above their explanations."""


def usage(verbs: Sequence[str], folders: Sequence[Path]) -> str:
    """Return the text of `simulmt --help`: every verb and what it does.

    Args:
        verbs: the verbs, each with a file `VERB.yaml`, whose first comment describes it.
        folders: the configuration folders, in the order of search.
    """
    pages = {verb: read(find(folders, verb)) for verb in verbs}
    described = [
        f"{_typical(verb, page)}\n{_filled(' '.join(page.header[1:]), ' ' * 6)}"
        for verb, page in pages.items()
    ]
    first = (simulmt.__doc__ or "simulmt").splitlines()[0]
    return "\n\n".join([first, *described, "\n".join(_table(FLAGS))])


def explain(verb: str, words: Sequence[str], folders: Sequence[Path]) -> str:
    """Return the text of `simulmt VERB --help`: its groups and keys, explained by their comments.

    Args:
        verb: the verb.
        words: the other words of the command line; those like `mechanism=milk` choose the files
            whose keys are explained.
        folders: the configuration folders, in the order of search. The choices of a group are those
            of all folders.

    Raises:
        UserError: a choice does not exist, or a file is not YAML.
    """
    page = read(find(folders, verb))
    pairs = chosen(page.groups, words)
    parts = [_typical(verb, page), _filled(" ".join(page.header[1:]), "  ")]
    parts.append("\n".join(_table(FLAGS_OF_VERB)))
    if page.groups:
        parts.append("GROUP=CHOICE, the choices of each group (* marks the default):")
        parts += [_choices(folders, group) for group in page.groups]
    parts += ["KEY=VALUE, the keys with their defaults:", _keys(keys_of(folders, verb).values())]
    for group, choice in pairs:
        about = " ".join(read(find(folders, f"{group.name}/{choice}")).header)
        title = _filled(f"{group.name}={choice}: {about}".rstrip(": "), "")
        parts.append(f"{title}\n{_keys(keys_of_choice(folders, group, choice))}".strip())
    return "\n\n".join(part for part in parts if part)


def _typical(verb: str, page: Page) -> str:
    """Return the usage line: the first line of the file, which may name the program in a clone."""
    line = page.header[0] if page.header else f"simulmt {verb} [KEY=VALUE] ..."
    return _filled(line.replace(f"python {verb}.py", f"simulmt {verb}"), " " * 6, "  ")


def _choices(folders: Sequence[Path], group: Group) -> str:
    """Return a group with its choices; choices in subfolders are listed by folder."""
    rows, nested = [], dict[str, list[str]]()
    for choice in choices(folders, group.name):
        folder, _, name = choice.rpartition("/")
        if folder:
            nested.setdefault(folder, []).append(name)
        else:
            mark = "* " if choice == group.default else "  "
            rows.append((mark + choice, read(find(folders, f"{group.name}/{choice}")).summary))
    rows += [(f"  {folder}/", ", ".join(names)) for folder, names in nested.items()]
    title = f"{group.name}: {group.why}".rstrip(": ")
    return "\n".join([_filled(title, "  "), *_table(rows)])


def _keys(keys: Iterable[Key]) -> str:
    """Return the keys as they are typed, with their explanations."""
    rows = []
    for name, value, why in keys:
        if value == REQUIRED:
            rows.append((f"{name}=", f"required: {why}"))
        elif value is not None:
            rows.append((f"{name}={value}", why))
        elif why:
            rows.append((f"{name}.", why))
    return "\n".join(_table(rows))


def _table(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield two columns as lines; the second one is wrapped to the width of the terminal."""
    column = min(max((len(left) for left, _ in rows), default=0), WIDEST_NAME)
    for left, right in rows:
        if len(left) > column:
            yield f"  {left}"
        first = "" if len(left) > column else left
        yield _filled(right, " " * (column + 4), f"  {first:{column}}  ").rstrip()


def _filled(text: str, indent: str, first: str | None = None) -> str:
    """Return a text wrapped to the width of the terminal, between 80 and 120 columns."""
    width = min(max(shutil.get_terminal_size((100, 24)).columns, 80), 120)
    start = indent if first is None else first
    wrapped = textwrap.fill(
        text, width, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False
    )
    return wrapped or (first or "")
