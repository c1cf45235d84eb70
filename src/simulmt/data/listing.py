"""The Parquet files of a data set, by configuration and split, as its card or their names say."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from simulmt.errors import UserError

ENDING = ".parquet"
_DEFAULT = "default"
_NUMBER = re.compile(r"-\d+-of-\d+(-[0-9a-f]+)?$")  # 00000-of-00002, perhaps with a digest
_LISTED = 20  # names in a message


@dataclass(frozen=True)
class Listing:
    """The Parquet files of a data set.

    Attributes:
        where: The data set, for messages.
        names: The files, each with its path from the data set's folder.
        configs: The entries `configs` of the card, `README.md`.
        remedy: What helps if a file is missing, for messages.
    """

    where: str
    names: Sequence[str]
    configs: Sequence[Mapping[str, Any]]
    remedy: str

    def files(self, split: str, config: str | None) -> list[str]:
        """Return the files of a split in the order of their names.

        Args:
            split: the name of the split, or a pattern of files: with `*`, or ending in `.parquet`.
            config: the name of the configuration; None for the only one, or the default.

        Raises:
            UserError: there are none, or the configuration has to be named.
        """
        if "*" in split or split.endswith(ENDING):
            files = self._matching([split])
        elif (patterns := self._declared(config)) is not None:
            if split not in patterns:
                raise self._absent(split, "splits", patterns)
            files = self._matching(patterns[split])
        else:
            files = self._named(split, config)
        if not files:
            raise self._absent(split, "Parquet files", self.names)
        return files

    def _declared(self, config: str | None) -> dict[str, list[str]] | None:
        """Return the patterns of each split of a configuration; None if the card has none."""
        configs = [c for c in self.configs if isinstance(c, Mapping) and "data_files" in c]
        cards = {str(card.get("config_name", _DEFAULT)): card for card in configs}
        if not cards:
            return None
        if config is None:
            usual = [name for name, card in cards.items() if card.get("default")]
            config = next(iter([*usual, *({_DEFAULT} & {*cards})]), None)
            config = next(iter(cards)) if len(cards) == 1 else config
        if config not in cards:
            raise self._unclear(config, cards)
        try:
            return _patterns(cards[config])
        except (AttributeError, KeyError, TypeError, IndexError):
            raise UserError(
                f"{self.where}: the card's `data_files` of {config} name no file for each split; "
                "give a pattern of files for each, such as data.train='train/*.parquet'"
            ) from None

    def _named(self, split: str, config: str | None) -> list[str]:
        """Return the files whose names, or the names of their folders, are that of a split."""
        folder = "" if config is None else f"{config}/"
        names = [name for name in self.names if name.startswith(folder)]
        if not names and config == _DEFAULT:
            names = [*self.names]
        if not names and self.names:
            raise self._unclear(config, {PurePosixPath(n).parts[0] for n in self.names if "/" in n})
        files = [name for name in names if split in _labels(name)]
        if not files and names:
            raise self._absent(split, "splits", {_labels(name)[0] for name in names})
        parents = {_home(name, split) for name in files}
        if len(parents) > 1:
            raise self._unclear(config, parents)
        return files

    def _matching(self, patterns: Sequence[str]) -> list[str]:
        forms = [_form(pattern) for pattern in patterns]
        return [name for name in self.names if any(form.fullmatch(name) for form in forms)]

    def _absent(
        self, split: str, what: str, names: Sequence[str] | Mapping[str, Any] | set[str]
    ) -> UserError:
        listed = f"its {what}: {_listed(names)}" if names else f"it has no {what}"
        return UserError(f"{self.where} has no split {split}; {listed}. {self.remedy}")

    def _unclear(self, config: str | None, names: Mapping[str, Any] | set[str]) -> UserError:
        asked = "several configurations" if config is None else f"no configuration {config}"
        return UserError(
            f"{self.where} has {asked}; choose with data.config: {_listed(names) or 'null'}"
        )


def _patterns(card: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the patterns of each split that a card's configuration gives in one of four forms."""
    given = card["data_files"]
    if isinstance(given, str) or (isinstance(given, list) and given and isinstance(given[0], str)):
        given = {"train": given}
    elif isinstance(given, list):
        given = {entry["split"]: entry["path"] for entry in given}
    return {
        str(split): [paths] if isinstance(paths, str) else [*map(str, paths)]
        for split, paths in given.items()
    }


def _labels(name: str) -> list[str]:
    """Return the splits that a file may belong to: by its own name, and by that of its folder."""
    path = PurePosixPath(name)
    labels = [_NUMBER.sub("", path.stem), path.parent.name]
    return labels[::-1] if labels[0].isdigit() else labels


def _home(name: str, split: str) -> str:
    """Return the folder of a file, without the folder of its split."""
    parent = PurePosixPath(name).parent
    return str(parent.parent if parent.name == split else parent)


def _form(pattern: str) -> re.Pattern[str]:
    """Return a pattern of files as a regular expression; `*` stays within a folder, `**` not."""
    signs = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern.removeprefix("./"))
    return re.compile("".join(signs.get(part, re.escape(part)) for part in parts))


def _listed(names: Sequence[str] | Mapping[str, Any] | set[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:_LISTED]) + (", ..." if len(shown) > _LISTED else "")
