"""Completion of `simulmt` in bash, zsh and fish: verbs, groups, choices, keys, values and files.

The script of a shell passes the line up to the cursor to `simulmt --complete LINE`. That command
prints the words that may end the line, one per line.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from simulmt.errors import UserError
from simulmt.programs.help import FLAGS, FLAGS_OF_VERB
from simulmt.programs.keys import (
    Group,
    Key,
    choices,
    chosen,
    find,
    keys_of,
    keys_of_choice,
    read,
)

# A shell adds a space after a word unless the word goes on.
_BASH = r"""
_simulmt() {
    local IFS=$'\n' typed=${COMP_LINE:0:COMP_POINT} word candidate
    word=${typed##*[[:space:]]}
    word=${word%"$2"}
    COMPREPLY=()
    for candidate in $("$1" --complete "$typed" 2>/dev/null); do
        case $candidate in *[=./]) ;; *) candidate+=' ' ;; esac
        COMPREPLY+=("${candidate#"$word"}")
    done
}
complete -o nospace -F _simulmt simulmt
"""
_ZSH = r"""
_simulmt() {
    local -a found
    found=(${(f)"$("$words[1]" --complete "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)"})
    compadd -S '' -- ${(M)found:#*[=./]}
    compadd -- ${found:#*[=./]}
}
whence compdef >/dev/null || { autoload -Uz compinit && compinit }
compdef _simulmt simulmt
"""
_FISH = r"""
function _simulmt
    set -l words (commandline -opc)
    $words[1] --complete (commandline -cp | string collect) 2>/dev/null
end
complete -c simulmt -f -a '(_simulmt)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""The script that each shell evaluates."""
AFTER_FLAG = {"--cfg": ("job", "hydra", "all")}
_PATH = re.compile(r"\b(file|folder|directory|checkpoint|run|translation)\b(?!')")
"""A comment with one of these words says that the value is a path."""
_CHOICES = re.compile(r"((?:[\w-]+, )*[\w-]+ )?or ([\w-]+(?:, [\w-]+)*)(?=[;:,.]|$)")


def script(shell: str) -> str:
    """Return the script that a shell evaluates to complete the words of `simulmt`.

    Raises:
        UserError: there is no script for this shell.
    """
    if shell not in SCRIPTS:
        raise UserError(f"no completion for {shell!r}; choose one of {', '.join(SCRIPTS)}")
    return SCRIPTS[shell].strip()


def complete(line: str, verbs: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """Return the words that may complete the last word of a line.

    A word that ends with `=`, `.` or `/` goes on.

    Args:
        line: the line up to the cursor, from the name of the command on.
        verbs: the verbs of the command, each with a file `VERB.yaml`.
        folders: the configuration folders, in the order of search.
    """
    *words, last = re.split(r"\s+", line.lstrip())
    try:
        found = sorted(set(_candidates(words[1:], last, verbs, folders)))
    except (UserError, OSError):  # a message would disturb the line that is being typed
        return []
    return [word for word in found if word.startswith(last) and not re.search(r"\s", word)]


def _candidates(
    words: Sequence[str], last: str, verbs: Sequence[str], folders: Sequence[Path]
) -> Iterable[str]:
    """Return the words that may follow `words`, also those that do not begin like `last`."""
    if not words:
        return _flags(FLAGS) if last.startswith("-") else verbs
    if words[-1] == "--completion":
        return SCRIPTS
    if words[-1] in AFTER_FLAG:
        return AFTER_FLAG[words[-1]]
    if words[0] not in verbs:
        return ()
    if last.startswith("-"):
        return _flags(FLAGS_OF_VERB)
    return _overrides(words[0], words[1:], last, folders)


def _flags(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return the long flags of a table of the help."""
    return re.findall(r"--\w+", " ".join(left for left, _ in rows))


def _overrides(
    verb: str, words: Sequence[str], last: str, folders: Sequence[Path]
) -> Iterator[str]:
    """Yield `GROUP=`, `KEY=` and `GROUP.`; after `=`, yield them with their possible values."""
    groups = {group.name: group for group in read(find(folders, verb)).groups}
    name, sign, value = last.partition("=")
    mark = re.match(r"[+~]*", name).group()  # type: ignore[union-attr]
    name = name.removeprefix(mark)
    if sign and name in groups:
        before = value[: value.rfind(",") + 1]  # the values of a sweep
        for choice in choices(folders, name):
            yield f"{mark}{name}={before}{_step(choice, value.removeprefix(before), '/')}"
        return
    for key in _keys(verb, groups.values(), words, folders):
        typed = key.name + ("." if key.value is None else "=")
        if not sign and typed != name:
            yield mark + _step(typed, name, ".")
        elif sign and key.name == name:
            yield from (f"{mark}{typed}{found}" for found in _values(key, value))
    if not sign:
        yield from (f"{mark}{name}=" for name in groups)


def _keys(
    verb: str, groups: Iterable[Group], words: Sequence[str], folders: Sequence[Path]
) -> Iterator[Key]:
    """Yield the keys of a verb and of the choices of its groups."""
    yield from keys_of(folders, verb).values()
    for group, choice in chosen(tuple(groups), words):
        yield from keys_of_choice(folders, group, choice)


def _values(key: Key, typed: str) -> Iterable[str]:
    """Return the values that a key's default and comment suggest, or the files for a path."""
    if key.value in ("true", "false"):
        return ("true", "false")
    if named := _CHOICES.match(re.sub(r" \([^)]*\)", "", key.why)):
        listed = re.findall(r"[\w-]+", f"{named[1] or key.value} {named[2]}")
        return [name for name in listed if name != "null"]
    number = re.match(r"-?\.?\d|\[", key.value or "")
    return _files(typed) if _PATH.search(key.why) and not number else ()


def _files(typed: str) -> Iterator[str]:
    """Yield the entries of a path's folder, with a slash after each folder."""
    folder, name = re.fullmatch(r"((?:.*/)?)([^/]*)", typed).groups()  # type: ignore[union-attr]
    with os.scandir(Path(folder or ".").expanduser()) as entries:
        for entry in entries:
            if name.startswith(".") or not entry.name.startswith("."):
                yield f"{folder}{entry.name}{'/' if entry.is_dir() else ''}"


def _step(name: str, typed: str, sign: str) -> str:
    """Return a name up to and including the first sign after the part that is typed already."""
    end = name.find(sign, len(typed)) if name.startswith(typed) else -1
    return name if end < 0 else name[: end + 1]
