"""The files of a split: one for each language, or several shards."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from simulmt.data.text import ENDINGS
from simulmt.errors import UserError

_ENDINGS = "|".join(re.escape(ending) for ending in ENDINGS)


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
    sides = [_shards(names, stem, language) for language in (source, target)]
    lonely = sorted(sides[0].keys() ^ sides[1].keys())
    if sides[0].keys().isdisjoint(sides[1]):
        raise UserError(_absent(folder, names, stem, source, target))
    if lonely:
        there, lacking = (source, target) if lonely[0] in sides[0] else (target, source)
        raise UserError(
            f"{folder / lonely[0]}.{there} has no partner {lonely[0]}.{lacking}, as the other "
            f"shards of {stem} have: fetch the partner, or move the shard away"
        )
    return [FilePair(*(folder / side[shard] for side in sides)) for shard in sorted(sides[0])]


def _shards(names: Iterable[str], stem: str, language: str) -> dict[str, str]:
    """The files of one language of a stem, by their names without language and ending.

    The file without a number alone counts if there is one.
    """
    any_text = ".*".join(re.escape(part) for part in stem.split("*"))
    numbered = "" if "*" in stem else r"(?:\.\d+)?"
    form = re.compile(f"({any_text}{numbered})\\.{re.escape(language)}({_ENDINGS})")
    matches = [match for name in names if (match := form.fullmatch(name))]
    matches.sort(key=lambda match: ENDINGS.index(match[2]), reverse=True)
    shards = {match[1]: match[0] for match in matches}
    return {stem: shards[stem]} if stem in shards else shards


def _absent(folder: Path, names: Sequence[str], stem: str, source: str, target: str) -> str:
    """The message about a stem without files in both languages."""
    lacking = target if _shards(names, stem, source) else source
    paths = [folder / f"{stem}.{lacking}{ending}" for ending in ENDINGS]
    if both := sorted(_stems(names, source) & _stems(names, target)):
        instead = f"stems with both {source} and {target} there: {', '.join(both)}"
    else:
        listing = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        instead = f"no stem there has both {source} and {target}; files: {listing or 'none'}"
    return (
        f"neither {' nor '.join(map(str, paths))} is there; {instead}. "
        "Correct the stem, the language or `root`"
    )


def _stems(names: Iterable[str], language: str) -> set[str]:
    form = re.compile(f"(.+)\\.{re.escape(language)}(?:{_ENDINGS})")
    return {match[1] for name in names if (match := form.fullmatch(name))}
