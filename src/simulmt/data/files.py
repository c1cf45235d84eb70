"""The files of a split: one for each language, or several shards."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from simulmt.data.text import ENDINGS
from simulmt.errors import UserError

_LISTED = 20  # files in a message


class FilePair(NamedTuple):
    """Line n of one file is the translation of line n of the other."""

    source: Path
    target: Path


def find_pairs(folder: Path, stem: str, source: str, target: str) -> list[FilePair]:
    """The files `<folder>/<stem>.<language>`, or the shards `<folder>/<stem>.<number>.<language>`.

    A `*` in the last part of the stem stands for any text, so that `train.*` names shards with
    other names. A plain file is preferred to the same with `.gz`, and that to `.zst`.

    Args:
        folder: the folder of all files.
        stem: the beginning of the files' names; it may name a folder within `folder`, too.
        source: language code of the source.
        target: language code of the target.

    Raises:
        UserError: there are no such files, or a shard lacks its partner; the message lists the
            files that the folder has instead.
    """
    folder, stem = (folder / stem).parent, Path(stem).name
    names = sorted(path.name for path in folder.glob("*") if path.is_file())
    sides = {language: _shards(names, stem, language) for language in (source, target)}
    stems = sorted({*sides[source], *sides[target]})
    pairs = [(f"{name}.{language}", side.get(name)) for name in stems or [stem]
             for language, side in sides.items()]  # fmt: skip
    if missing := [name for name, file in pairs if file is None]:
        listed = ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
        raise UserError(
            f"{folder / missing[0]} is missing (plain, .gz or .zst); files there: "
            f"{listed or 'none'}. Correct the stem, the language or `root`, or add the file"
        )
    return [FilePair(*(folder / side[name] for side in sides.values())) for name in stems]


def _shards(names: Iterable[str], stem: str, language: str) -> dict[str, str]:
    """The files of one language of a stem, by their names without language and ending.

    The file without a number alone counts if there is one.
    """
    any_text = ".*".join(re.escape(part) for part in stem.split("*"))
    numbered = "" if "*" in stem else r"(?:\.\d+)?"
    endings = "|".join(re.escape(ending) for ending in ENDINGS)
    form = re.compile(f"({any_text}{numbered})\\.{re.escape(language)}({endings})")
    matches = [match for name in names if (match := form.fullmatch(name))]
    matches.sort(key=lambda match: ENDINGS.index(match[2]), reverse=True)
    shards = {match[1]: match[0] for match in matches}
    return {stem: shards[stem]} if stem in shards else shards
