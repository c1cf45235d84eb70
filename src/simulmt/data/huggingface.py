"""The reader of Hugging Face's data sets: Parquet files in a folder, or on the hub."""

from collections.abc import Callable
from functools import cache as once
from pathlib import Path

import yaml

from simulmt.data.corpus import Corpus, LazySplits, Split
from simulmt.data.hub import is_name, repository
from simulmt.data.listing import ENDING, Listing
from simulmt.data.parquet import Columns, ParquetShard
from simulmt.data.reader import read_pairs, read_shards
from simulmt.data.sacrebleu_sets import find_set, is_test_set
from simulmt.data.shards import Shard
from simulmt.errors import UserError
from simulmt.options import Count

_CARD = "README.md"
Place = tuple[Listing, Callable[[str], Shard]]
"""The files of a data set, and what makes a shard of one of them."""


def read_huggingface(
    path: str,
    config: str | None,
    revision: str | None,
    source: str,
    target: str,
    columns: tuple[str, str] | None,
    train: str,
    valid: str,
    test: str,
    max_words: Count,
    name: str,
    cache: Path | None = None,
) -> Corpus:
    """A corpus of a data set in Parquet files, normalised and filtered as `read_text` does.

    A row is a pair, in a column `translation` with a field for each language code, or in two
    columns of text. Nothing of a data set is executed. Each split is read at its first access.

    Args:
        path: a folder, or the name of a data set on the hub.
        config: name of the configuration (subset); None for the only one, or the default.
        revision: a branch, a tag or a commit on the hub; None for `main`.
        source: language code of the source.
        target: language code of the target.
        columns: the columns of source and target; None for the language codes.
        train: name of the training split, or a pattern of its files, such as "de-en/*.parquet";
            instead of any split `sacrebleu:<name>` names a test set of sacreBLEU.
        valid: name of the development split.
        test: name of the test split.
        max_words: the most words that either side of a training pair may have.
        name: name of the corpus in reports and manifests.
        cache: the folder that keeps the normalised text; None to hold it in memory.

    Raises:
        UserError: there is no such folder. At the first access to a split: the hub has no such
            data set or cannot be asked, there is no such configuration, split or column, a file
            is damaged, or no pair is left.
    """
    languages, chosen = Columns(source, target), Columns(*columns) if columns else None
    folder = _folder(path, revision)

    @once
    def place() -> Place:
        if folder is not None:
            return _listing(folder), lambda file: ParquetShard(folder / file, languages, chosen)
        there = repository(path, revision, cache)
        return there.listing, lambda file: there.shard(file, languages, chosen)

    splits = {"train": train, "valid": valid, "test": test}

    def read(split: str) -> Split:
        limit = max_words if split == "train" else None
        if is_test_set(splits[split]):
            return read_pairs([find_set(splits[split], source, target)], limit, cache)
        listing, shard = place()
        return read_shards([*map(shard, listing.files(splits[split], config))], limit, cache)

    return Corpus(name, source, target, LazySplits(read))


def _folder(path: str, revision: str | None) -> Path | None:
    """Return the folder that a path names; None for the name of a data set on the hub."""
    folder = Path(path).expanduser()
    if folder.is_dir():
        if revision is not None:
            raise UserError(
                f"data.revision={revision} with the folder {folder}: only data sets on the hub "
                "have revisions; leave it out"
            )
        return folder
    if folder.exists():
        raise UserError(
            f"data.path={path} is a file: give its folder, and the file as a split "
            f"(data.train={folder.name})"
        )
    if not is_name(path):
        raise UserError(
            f"data.path={path}: there is no such folder; give a folder of Parquet files, or the "
            "name of a data set on the hub, such as Helsinki-NLP/opus_books"
        )
    return None


def _listing(folder: Path) -> Listing:
    """Return the Parquet files in a folder and below, without hidden folders."""
    paths = (path.relative_to(folder) for path in folder.rglob(f"*{ENDING}") if path.is_file())
    names = sorted(p.as_posix() for p in paths if not any(n.startswith(".") for n in p.parts))
    remedy = "Correct the split; a pattern of files, such as 'de-en/*.parquet', is a split, too"
    if not names:
        remedy = "Other formats become Parquet by `datasets`: load_dataset(...)[SPLIT].to_parquet"
    return Listing(str(folder), names, _configs(folder / _CARD), remedy)


def _configs(card: Path) -> list[dict[str, object]]:
    """Return the entries `configs` of a data set's card; none if there is no card."""
    if not card.is_file():
        return []
    parts = card.read_text(encoding="utf-8", errors="replace").split("---\n", 2)
    if len(parts) < 3 or parts[0].strip():
        return []
    try:
        header = yaml.safe_load(parts[1])
    except yaml.YAMLError:
        raise UserError(f"the header of {card} is no YAML: correct it, or move it away") from None
    configs = header.get("configs") if isinstance(header, dict) else None
    return configs if isinstance(configs, list) else []
