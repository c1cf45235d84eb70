"""The text that a program decodes: a split of the model's own data, a test set, or two files."""

from pathlib import Path

from simulmt.data.corpus import Split
from simulmt.data.pairs import FilePair
from simulmt.data.reader import read_pairs
from simulmt.data.sacrebleu_sets import PREFIX, find_set, is_test_set
from simulmt.data.text import stem
from simulmt.errors import UserError
from simulmt.saved.trained import Trained


def check_text(split: str, source: Path | None, target: Path | None, root: Path | None) -> None:
    """Check the options that name a text, as of `read_text`.

    Raises:
        UserError: they name two texts, or half of one.
    """
    files = f"source={source} and target={target}"
    if (source is None) != (target is None):
        raise UserError(f"{files}: give both, or neither")
    if source and split != "test":
        raise UserError(f"split={split} with {files}: leave out the split, or the files")
    if root and (source or is_test_set(split)):
        raise UserError(
            f"data_root={root} is for the model's own data: leave it out, or leave out "
            f"{f'source={source}' if source else f'split={split}'}"
        )


def name_of_text(split: str, source: Path | None) -> str:
    """Return the name of a text in folders and tables."""
    return stem(source) if source else split.removeprefix(PREFIX).replace("/", "_")


def read_text(
    trained: Trained, split: str, source: Path | None, target: Path | None, root: Path | None
) -> tuple[FilePair | None, Split]:
    """Return the files of a text, None for a split of the model's own data, and its pairs.

    Args:
        trained: the model that is to decode it.
        split: `test`, another split of the model's own data, or a test set of sacreBLEU.
        source: the file of the sources, instead of a split.
        target: the file of the references.
        root: the folder of the model's own data, if it has moved.

    Raises:
        UserError: there is no such text.
    """
    if is_test_set(split):
        described = trained.manifest
        files = find_set(split, described.source_language, described.target_language)
    elif source and target:
        files = FilePair(source, target)
    else:
        return None, trained.own_split(split, root)
    return files, read_pairs([files], writing=trained.subwords.writing)
