"""The reader of parallel text: pairs of lines, normalised and filtered, in memory or cached."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from unicodedata import unidata_version

import numpy as np

from simulmt.console import counted
from simulmt.data.corpus import Corpus, LazySplits, Split
from simulmt.data.files import FilePair, find_pairs
from simulmt.data.lines import Lines
from simulmt.data.pairs import clean
from simulmt.data.ragged import Ragged
from simulmt.data.sacrebleu_sets import find_set, is_test_set
from simulmt.data.shards import Shard, TextShard
from simulmt.data.store import SIDES, Entry, digest, write_sides
from simulmt.data.text import NORMALISATION
from simulmt.data.workers import in_order
from simulmt.errors import UserError
from simulmt.options import Count


def read_text(
    root: str,
    source: str,
    target: str,
    train: str,
    valid: str,
    test: str,
    max_words: Count,
    name: str,
    cache: Path | None = None,
) -> Corpus:
    """A corpus of the files `<root>/<stem>.<language>` or of shards `<stem>.<number>.<language>`.

    A file may be plain, `.gz` or `.zst`. Only LF or CR LF ends a line; a byte-order mark is
    skipped. A pair with an empty side is dropped from every split, a pair that is too long from
    `train` alone. `Split.dropped` counts both. Each split is read at its first access. Instead of a
    stem, `sacrebleu:<name>` names a test set of sacreBLEU.

    Args:
        root: the folder of the files; `~` is expanded.
        source: language code of the source, the suffix of its files.
        target: language code of the target.
        train: stem of the training files, such as "train"; in any stem `*` stands for any text.
        valid: stem of the validation files, such as "val".
        test: stem of the test files, such as "test_2016_flickr".
        max_words: the most words that either side of a training pair may have.
        name: name of the corpus in reports and manifests.
        cache: the folder that keeps the normalised text; None to hold it in memory.

    Raises:
        UserError: there is no such folder. At the first access to a split: a file is missing,
            damaged, not UTF-8 or of another length than its partner, or no pair is left.
    """
    folder = Path(root).expanduser()
    if not folder.is_dir():
        raise UserError(
            f"the data folder {folder} does not exist (or is no folder): set `root` to the folder "
            f"of {train}.{source} and {train}.{target}"
        )

    stems = {"train": train, "valid": valid, "test": test}

    def read(split: str) -> Split:
        stem = stems[split]
        if is_test_set(stem):
            files = [find_set(stem, source, target)]
        else:
            files = find_pairs(folder, stem, source, target)
        return read_pairs(files, max_words if split == "train" else None, cache)

    return Corpus(name, source, target, LazySplits(read))


def read_pairs(
    files: Sequence[FilePair], max_words: int | None = None, cache: Path | None = None
) -> Split:
    """The pairs of one or more pairs of text files; see `read_shards`."""
    return read_shards([*map(TextShard, files)], max_words, cache)


def read_shards(
    shards: Sequence[Shard], max_words: int | None = None, cache: Path | None = None
) -> Split:
    """The pairs of one or more shards.

    Args:
        shards: the shards, one after the other.
        max_words: the most words that either side of a pair may have; None for any number.
        cache: the folder that keeps the normalised text; None to hold it in memory.

    Raises:
        UserError: a file is missing, damaged, not UTF-8 or of another length than its partner,
            no pair is left, or, without `max_words`, a line is longer than `LONGEST_LINE`.
    """
    if cache is None:
        return _in_memory(shards, max_words)
    stamps = _stamps(shards)
    key = digest([_contents(shards, stamps, cache), max_words, NORMALISATION, unidata_version])
    entry = Entry(cache / "text" / key, partial(_write, shards, stamps, max_words))
    stored, facts = entry.record.files, entry.record.facts
    sources, targets = (
        Lines(facts["pairs"], partial(entry.rows, side, np.uint8), stored[side].sha256)
        for side in SIDES
    )
    return Split(sources, targets, dropped=facts["dropped"])


def _in_memory(shards: Sequence[Shard], max_words: int | None) -> Split:
    dropped = Counter[str]()
    parts = zip(*_cleaned(shards, max_words, dropped), strict=True)
    sources, targets = (Lines.around(Ragged.joined(side)) for side in parts)
    return Split(sources, targets, dropped=dict(dropped))


def _write(
    shards: Sequence[Shard], stamps: list[object], max_words: int | None, folder: Path
) -> dict[str, Any]:
    """Write the text of some shards into an unfinished entry; return its facts."""
    dropped = Counter[str]()
    parts = _cleaned(shards, max_words, dropped)
    pairs = write_sides(folder, parts, "the normalised text", _text_size(shards))
    if _stamps(shards) != stamps:
        raise UserError(f"{shards[0]} or a file beside it changed while it was read: start again")
    return {"pairs": pairs, "dropped": dict(dropped)}


def _contents(shards: Sequence[Shard], stamps: list[object], cache: Path) -> list[str]:
    """The digests of all shards, which are computed again only if a shard has changed."""
    entry = Entry(
        cache / "text" / "files" / digest(stamps),
        lambda _: {"sha256": [digest for shard in shards for digest in shard.digests]},
    )
    contents: list[str] = entry.record.facts["sha256"]
    return contents


def _stamps(shards: Sequence[Shard]) -> list[object]:
    return [shard.stamp for shard in shards]


def _text_size(shards: Sequence[Shard]) -> int:
    return sum(shard.size for shard in shards)


def _cleaned(
    shards: Sequence[Shard], max_words: int | None, dropped: Counter[str]
) -> Iterator[tuple[Ragged, Ragged]]:
    """The normalised pairs of some shards, in at least one block; what is dropped is counted."""
    pairs = 0
    clean_block = partial(clean, max_words=max_words)
    blocks = chain.from_iterable(shard.blocks() for shard in shards)
    parts = in_order(clean_block, blocks, _text_size(shards))
    for part in counted(parts, "reading", lambda part: len(part.sources)):
        dropped.update(part.dropped)
        pairs += len(part.sources)
        yield part.sources, part.targets
    if not pairs:
        limit = "" if max_words is None else f" (max_words={max_words}: raise it)"
        raise UserError(
            f"no pair is left of {shards[0]}: "
            f"{dropped.total()} lines, {dropped['empty']} pairs with an empty side, "
            f"{dropped['too_long']} too long{limit}; "
            "check that these are the right files"
        )
