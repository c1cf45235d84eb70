"""The reader of Hugging Face's data sets, on the Hub or in a folder, by the library `datasets`."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from simulmt.console import console
from simulmt.data.corpus import Corpus, LazySplits, Split
from simulmt.data.pairs import BLOCK, Block
from simulmt.data.reader import Shard, read_pairs, read_shards
from simulmt.data.sacrebleu_sets import find_set, is_test_set
from simulmt.errors import UserError
from simulmt.options import Count

_TEXT = ("string", "large_string", "string_view")


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
    """A corpus of a data set of Hugging Face, normalised and filtered as `read_text` does.

    A row is a pair, in a column `translation` with a field for each language code, or in two
    columns of text. Nothing of a data set is executed. Each split is read at its first access.

    Args:
        path: a folder, or the name of a data set on the Hub.
        config: name of the configuration (subset); None for the only one, or the default.
        revision: a branch, a tag or a commit on the Hub; None for `main`.
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
        UserError: at the first access to a split: `datasets` is not installed or cannot read the
            split, a column is missing, or no pair is left.
    """
    splits = {"train": train, "valid": valid, "test": test}

    def read(split: str) -> Split:
        limit, part = max_words if split == "train" else None, splits[split]
        if is_test_set(part):
            return read_pairs([find_set(part, source, target)], limit, cache)
        dataset = _load(path, config, revision, part)
        names = columns or (source, target)
        if columns is None and "translation" in dataset.column_names:
            names = (f"translation.{source}", f"translation.{target}")
        files = [Path(file["filename"]) for file in dataset.cache_files]
        dataset, where = dataset.flatten(), f"{path} {part}"
        _check_columns(dataset.features, names, where)
        blocks = partial(_blocks, dataset.select_columns([*{*names}]), names, where)
        return read_shards([Shard(where, files, blocks, [part, *names])], limit, cache)

    return Corpus(name, source, target, LazySplits(read))


def _load(path: str, config: str | None, revision: str | None, split: str) -> Any:
    """Return a split of a data set, or the files of a pattern."""
    try:
        import datasets  # noqa: PLC0415
    except ImportError:
        raise UserError(
            "data=huggingface needs `datasets`: pip install 'simulmt[huggingface]'"
        ) from None
    if not console.is_terminal:
        datasets.disable_progress_bars()
    place = Path(path).expanduser()
    pattern = "*" in split or split.endswith(".parquet")
    try:
        return datasets.load_dataset(
            str(place) if place.is_dir() else path,
            None if pattern else config,
            data_files={"files": split} if pattern else None,
            split="files" if pattern else split,
            revision=revision,
            keep_in_memory=False,
        )
    except Exception as error:  # of several libraries
        where = path if place.is_dir() else f"{path} on the Hub (there is no such folder here)"
        cause = error.__cause__ or error
        reason = str(cause).partition("\n")[0].rstrip(".") or type(cause).__name__
        raise UserError(
            f"split {split} of {where} cannot be read: {reason}; correct data.path, data.config, "
            "data.revision or the split (docs/data.md: also without a network)"
        ) from error


def _check_columns(features: Any, names: tuple[str, str], where: str) -> None:
    for name in names:
        kind = getattr(features.get(name), "dtype", None)
        if kind not in _TEXT:
            found = f"column {name} holds {kind}, not text" if kind else f"no column {name}"
            raise UserError(
                f"{where}: {found}; columns: {', '.join(features)}. Correct data.source and "
                "data.target, or set data.columns=[SOURCE,TARGET]"
            )


def _blocks(dataset: Any, names: tuple[str, str], where: str) -> Iterator[Block]:
    """The texts of both columns; null is an empty text."""
    for start in range(0, len(dataset), BLOCK):
        rows = dataset[start : start + BLOCK]
        sources, targets = ([(text or "").encode() for text in rows[name]] for name in names)
        yield Block((where, where), start + 1, sources, targets)
