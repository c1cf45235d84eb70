"""`align.py`: word alignments of a corpus."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from omegaconf import DictConfig

from simulmt.alignment.aligner import align_text, check_installed
from simulmt.alignment.links import format_links
from simulmt.alignment.symmetrise import SYMMETRISE
from simulmt.builders import build_corpus
from simulmt.data.corpus import Split
from simulmt.data.text import text_lines
from simulmt.errors import UserError
from simulmt.options import construct, pick
from simulmt.programs.plain import plain


@dataclass(frozen=True)
class Options:
    """The options of `conf/align.yaml`, which explains each of them."""

    source: Path | None
    target: Path | None
    split: Literal["train", "valid", "test"]
    symmetrise: str
    to: Path | None
    plugins: list[str]
    data: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        pick(SYMMETRISE, self.symmetrise, "symmetrise")
        files = (self.source, self.target)
        if (None in files) if self.data is None else (files != (None, None)):
            raise UserError(
                f"source is {self.source}, target {self.target}, data "
                f"{self.data and self.data.get('name')}; give both files, or data=PRESET alone"
            )
        if self.to is None:
            return
        if not self.to.parent.is_dir():
            raise _unwritable(self.to, f"there is no folder {self.to.parent}")
        if not os.access(self.to if self.to.exists() else self.to.parent, os.W_OK):
            raise _unwritable(self.to, "it is read-only")


def align(cfg: DictConfig) -> None:
    """Align all pairs, and write a line of links for each, `0-0 1-2`.

    Raises:
        UserError: anything a user can put right.
    """
    options = construct(Options, plain(cfg), "")
    check_installed()
    aligned, *more = _splits(options)
    sources = [line for split in (aligned, *more) for line in split.sources]
    targets = [line for split in (aligned, *more) for line in split.targets]
    links = align_text(sources, targets, options.symmetrise, len(aligned))
    text = "".join(format_links(pair) + "\n" for pair in links)
    if options.to is None:
        sys.stdout.write(text)
        return
    try:
        options.to.write_text(text, encoding="ascii", newline="\n")
    except OSError as error:
        raise _unwritable(options.to, error.strerror) from None
    print(f"written: {options.to}, {len(links):,} lines")


def _unwritable(path: object, why: str | None) -> UserError:
    return UserError(f"to={path} cannot be written ({why}); name a file in a folder that exists")


def _splits(options: Options) -> Sequence[Split]:
    """Return the pairs to align; for another split than `train`, the training pairs as well."""
    if options.data is not None:
        splits = build_corpus(options.data).splits
        return [splits[name] for name in dict.fromkeys((options.split, "train"))]
    paths = options.source or Path(), options.target or Path()
    sources, targets = ([*text_lines(path)] for path in paths)
    if len(sources) != len(targets):
        fewer, more = sorted((len(sources), len(targets)))
        raise UserError(
            f"{paths[0]} has {len(sources)} lines but {paths[1]} has {len(targets)}: from line "
            f"{fewer + 1} to {more} one has no partner; line n of one must be the translation "
            "of line n of the other"
        )
    return [Split(sources, targets)]


if __name__ == "__main__":
    from simulmt.cli import main

    main("align")
