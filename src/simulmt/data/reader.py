"""The reader of parallel text: pairs of lines, normalised and filtered, in memory or cached."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unicodedata import unidata_version

import numpy as np

from simulmt.data.corpus import Corpus, LazySplits, Split
from simulmt.data.docids import read_docids
from simulmt.data.lines import Lines
from simulmt.data.pairs import FilePair, PairBlock, clean, find_pairs, raw_blocks
from simulmt.data.ragged import Ragged
from simulmt.data.sacrebleu_sets import find_set, is_test_set
from simulmt.data.store import SIDES, Entry, digest, digest_of_file, write_sides
from simulmt.data.text import ENDINGS, NORMALISATION
from simulmt.data.workers import in_order
from simulmt.decoding.writing import WORDS, Writing
from simulmt.errors import UserError
from simulmt.options import Count
from simulmt.system.console import counted, warn

_PIECE = "\u2581".encode()


@dataclass(frozen=True)
class Shard:
    """A part of a split.

    Attributes:
        name: Its name in messages.
        files: The files that hold the text.
        blocks: Returns the raw pairs.
        taken: The parts of the files that are read, such as a split and its columns.
    """

    name: str
    files: Sequence[Path]
    blocks: Callable[[], Iterator[PairBlock]]
    taken: Sequence[str] = ()

    @property
    def state(self) -> list[object]:
        """Values that change when the text does: the place, sizes and times of each file."""
        states = [(str(path.absolute()), path.stat()) for path in self.files]
        stamps = [[p, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino] for p, s in states]
        return [*stamps, *self.taken]

    @property
    def digests(self) -> list[str]:
        """The SHA-256 of each file, and the parts of the files that are read."""
        with _reading():
            return [*map(digest_of_file, self.files), *self.taken]

    @property
    def size(self) -> int:
        """The bytes of the files."""
        return sum(path.stat().st_size for path in self.files)


@contextmanager
def _reading() -> Iterator[None]:
    """Turn the OSError of a file that cannot be read into a UserError."""
    try:
        yield
    except OSError as error:
        why = f"{error.filename} cannot be read ({error.strerror})"
        raise UserError(f"{why}: check path and permissions") from error


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
    documents: bool = False,
    writing: Writing = WORDS,
) -> Corpus:
    """A corpus of the files `<root>/<stem>.<language>` or of shards `<stem>.<number>.<language>`.

    A file may be plain, `.gz` or `.zst`. Only LF or CR LF ends a line; a byte-order mark is
    skipped. A pair with an empty side is dropped from every split, a pair that is too long only
    from `train`. `Split.dropped` counts both. Each split is read at its first access. Instead of a
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
        documents: True to group the lines into documents by `<root>/<stem>.docid`, if it exists.
        writing: what a word is, on either side.

    Raises:
        UserError: there is no such folder, or only one language. At the first access to a split: a
            file is missing, corrupt, not UTF-8 or not as long as its partner, or no pair is
            left.
    """
    folder = Path(root).expanduser()
    if not folder.is_dir():
        raise UserError(
            f"{folder} is not a folder: set data.root (in other verbs: data_root) to the folder "
            f"that holds {train}.{source} and {train}.{target}"
        )
    if source == target:
        raise UserError(f"data.source and data.target are both {source}: choose two languages")
    stems = {"train": train, "valid": valid, "test": test}

    def read(split: str) -> Split:
        stem = stems[split]
        if is_test_set(stem):
            files = [find_set(stem, source, target)]
        else:
            files = find_pairs(folder, stem, source, target)
        limit = max_words if split == "train" and not documents else None
        pairs = read_pairs(files, limit, cache, writing)
        docids = (folder / f"{stem}.docid{ending}" for ending in ENDINGS)
        found = next(filter(Path.exists, docids), None) if documents else None
        return with_documents(pairs, found) if found else pairs

    return Corpus(name, source, target, LazySplits(read))


def with_documents(pairs: Split, docids: Path) -> Split:
    """The pairs as documents, by a file with the id of the document of each line.

    Raises:
        UserError: the file cannot be read or does not fit the text, or a pair has an empty side.
    """
    if empty := pairs.dropped.get("empty"):
        raise UserError(
            f"{empty:,} lines of a document have an empty side: remove these lines from both sides "
            f"and from {docids}"
        )
    return replace(pairs, documents=read_docids(docids, len(pairs)))


def read_pairs(
    files: Sequence[FilePair],
    max_words: int | None = None,
    cache: Path | None = None,
    writing: Writing = WORDS,
) -> Split:
    """The pairs of one or more pairs of text files; see `read_shards`."""
    shards = [Shard(str(pair.source), pair, partial(raw_blocks, pair)) for pair in files]
    return read_shards(shards, max_words, cache, writing)


def read_shards(
    shards: Sequence[Shard],
    max_words: int | None = None,
    cache: Path | None = None,
    writing: Writing = WORDS,
) -> Split:
    """The pairs of one or more shards.

    Args:
        shards: the shards, one after the other.
        max_words: the most words that either side of a pair may have; None for any number.
        cache: the folder that keeps the normalised text; None to hold it in memory.
        writing: what a word is, on either side.

    Raises:
        UserError: a file is missing, corrupt, not UTF-8 or not as long as its partner,
            no pair is left, or, without `max_words`, a line is longer than `LONGEST_LINE`.
    """
    with _reading():
        states = [shard.state for shard in shards]
    if cache is None:
        dropped = Counter[str]()
        parts = zip(*_cleaned(shards, max_words, dropped, writing), strict=True)
        sources, targets = (Lines.around(Ragged.joined(side)) for side in parts)
        return Split(sources, targets, dropped=dict(dropped))
    contents = Entry(  # of which the digests are computed once
        cache / "text" / "files" / digest(states),
        lambda _: {"sha256": [digest for shard in shards for digest in shard.digests]},
    ).record.facts["sha256"]
    key = digest([contents, max_words, NORMALISATION, unidata_version, *writing.sides])

    def write(folder: Path) -> dict[str, Any]:
        dropped = Counter[str]()
        pairs = write_sides(folder, _cleaned(shards, max_words, dropped, writing))
        if [shard.state for shard in shards] != states:
            raise UserError(f"{shards[0].name} changed while it was being read: retry")
        return {"pairs": pairs, "dropped": dict(dropped)}

    entry = Entry(cache / "text" / key, write)
    sha256, facts = entry.record.sha256, entry.record.facts
    sources, targets = (
        Lines(facts["pairs"], partial(entry.rows, side, np.uint8), sha256[side]) for side in SIDES
    )
    return Split(sources, targets, dropped=facts["dropped"])


def _in_words(block: PairBlock) -> PairBlock:
    """The same block; warns if its words are segmented, which `normalise` would hide."""
    for name, side in zip(block.names, (block.sources, block.targets), strict=True):
        if any(_PIECE in line for line in side):
            warn(f"{name} has SentencePiece's U+2581, read as a space: undo the segmentation")
    return block


def _cleaned(
    shards: Sequence[Shard], max_words: int | None, dropped: Counter[str], writing: Writing
) -> Iterator[tuple[Ragged, Ragged]]:
    """The normalised pairs of some shards; `dropped` counts the pairs that are left out.

    Raises:
        UserError: no pair is left.
    """
    pairs, size = 0, sum(shard.size for shard in shards)
    blocks = (_in_words(block) for shard in shards for block in shard.blocks())
    parts = in_order(partial(clean, max_words=max_words, writing=writing), blocks, size)
    for part in counted(parts, "reading", lambda part: len(part.sources)):
        dropped.update(part.dropped)
        pairs += len(part.sources)
        yield part.sources, part.targets
    if not pairs:
        limit = "" if max_words is None else f" (max_words={max_words}: raise it)"
        raise UserError(
            f"no pairs are left in {shards[0].name}: {dropped['empty']} pairs with an empty "
            f"side, {dropped['too_long']} too long{limit}; check that these are the right files"
        )
