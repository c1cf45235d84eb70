"""The text that a program decodes: a split of the model's own data, a test set, or two files."""

from dataclasses import dataclass
from pathlib import Path

from simulmt.data.corpus import Split
from simulmt.data.pairs import FilePair
from simulmt.data.reader import read_pairs
from simulmt.data.sacrebleu_sets import PREFIX, find_set, is_test_set
from simulmt.data.text import stem
from simulmt.errors import UserError
from simulmt.saved.trained import Trained


@dataclass(frozen=True)
class TextOptions:
    """The options that name a text.

    Attributes:
        split: `test`, another split of the model's own data, or a test set of sacreBLEU.
        source: The file of the sources, instead of a split.
        target: The file of the references.
        data_root: The folder of the model's own data, if it has moved.

    Raises:
        UserError: they name two texts, or half of one.
    """

    split: str
    source: Path | None
    target: Path | None
    data_root: Path | None

    def __post_init__(self) -> None:
        files = f"source={self.source} and target={self.target}"
        if (self.source is None) != (self.target is None):
            raise UserError(f"{files}: give both, or neither")
        if self.source and self.split != "test":
            raise UserError(f"split={self.split} with {files}: leave out the split, or the files")
        if self.data_root and self.is_other:
            named = f"source={self.source}" if self.source else f"split={self.split}"
            raise UserError(
                f"data_root={self.data_root} is for the model's own data: leave it out, or leave "
                f"out {named}"
            )

    @property
    def is_other(self) -> bool:
        """True if the text is not of the model's own data."""
        return self.source is not None or is_test_set(self.split)

    @property
    def name(self) -> str:
        """The name of the text in folders and tables."""
        own = self.split.removeprefix(PREFIX).replace("/", "_")
        return stem(self.source) if self.source else own

    def read(self, trained: Trained) -> tuple[FilePair | None, Split]:
        """Return the files, None for a split of the model's own data, and their pairs.

        Args:
            trained: the model that is to decode them.

        Raises:
            UserError: there is no such text.
        """
        if is_test_set(self.split):
            described = trained.manifest
            files = find_set(self.split, described.source_language, described.target_language)
        elif self.source and self.target:
            files, described = FilePair(self.source, self.target), trained.manifest
            pair = (described.source_language, described.target_language)
            endings = tuple(file.suffix.removeprefix(".") for file in files)
            if endings != pair and endings == pair[::-1]:
                given = f"source={self.source} and target={self.target}"
                raise UserError(f"{given}, but the model translates {' to '.join(pair)}: swap them")
        else:
            return None, trained.own_split(self.split, self.data_root)
        return files, read_pairs([files], writing=trained.subwords.writing)
