"""The reader of Hugging Face's data sets, on the Hub or in a folder, with `datasets`."""

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from simulmt.data.corpus import Corpus, LazySplits, Split
from simulmt.data.dataset_card import check_cards
from simulmt.data.pairs import BLOCK, PairBlock
from simulmt.data.reader import Shard, read_pairs, read_shards
from simulmt.data.sacrebleu_sets import find_set, is_test_set
from simulmt.decoding.writing import WORDS, Writing
from simulmt.errors import UserError
from simulmt.options import Count
from simulmt.system.console import console

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
    writing: Writing = WORDS,
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
        writing: what a word is, on either side.

    Raises:
        UserError: at the first access to a split: `datasets` is not installed or cannot read the
            split, a column is missing, or no pair is left.
    """
    splits = {"train": train, "valid": valid, "test": test}
    place = Path(path).expanduser()

    def read(name: str) -> Split:
        limit, split = max_words if name == "train" else None, splits[name]
        if is_test_set(split):
            return read_pairs([find_set(split, source, target)], limit, cache, writing)
        datasets, pattern = _library(), "*" in split or split.endswith(".parquet")
        try:
            if revision and place.is_dir():
                raise ValueError(f"data.revision={revision} is for the Hub, and this is a folder")
            check_cards(path, revision)
            dataset = datasets.load_dataset(
                str(place) if place.is_dir() else path,
                None if pattern else config,
                data_files={"files": split} if pattern else None,
                split="files" if pattern else split,
                revision=revision,
                keep_in_memory=False,
            )
            prefix = "translation." if "translation" in dataset.column_names else ""
            names = columns or (prefix + source, prefix + target)
            texts = dataset.flatten().select_columns([*names])
            if wrong := {n: k.dtype for n, k in texts.features.items() if k.dtype not in _TEXT}:
                raise ValueError(f"not columns of text: {wrong}")
        except Exception as error:  # of several libraries
            where = path if place.is_dir() else f"{path} on the Hub (not a local folder)"
            cause = error.__cause__ or error
            reason = str(cause).partition("\n")[0].rstrip(".") or type(cause).__name__
            raise UserError(
                f"split {split} of {where} cannot be read: {reason}; correct data.path, "
                "data.config, data.revision, data.columns or the split (docs/data.md also covers "
                "offline use)"
            ) from error
        files = [Path(file["filename"]) for file in texts.cache_files]
        blocks, taken = partial(_blocks, texts, f"{path} {split}"), [split, *texts.column_names]
        return read_shards([Shard(f"{path} {split}", files, blocks, taken)], limit, cache, writing)

    return Corpus(name, source, target, LazySplits(read))


def _library() -> Any:
    if find_spec("datasets") is None:
        raise UserError("data=huggingface needs `datasets`: pip install 'simulmt[huggingface]'")
    import datasets  # noqa: PLC0415  (optional)

    if not console.is_terminal:
        datasets.disable_progress_bars()
    return datasets


def _blocks(dataset: Any, where: str) -> Iterator[PairBlock]:
    """The texts of both columns; null is an empty text."""
    for start in range(0, len(dataset), BLOCK):
        rows = dataset[start : start + BLOCK].values()
        sources, targets = ([(text or "").encode() for text in column] for column in rows)
        yield PairBlock((where, where), start + 1, sources, targets)
