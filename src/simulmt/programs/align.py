"""`align.py`: word alignments of a corpus, and how much they have to be anticipated."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from omegaconf import DictConfig

from simulmt.alignment.aligner import align_text, check_installed
from simulmt.alignment.links import Links, by_target, format_links, read_links
from simulmt.alignment.symmetrise import SYMMETRISE
from simulmt.data.corpus import Split
from simulmt.data.text import text_lines, word_count
from simulmt.decoding.writing import WORDS
from simulmt.errors import UserError
from simulmt.options import Config, construct, pick
from simulmt.parts.builders import Data, build_corpus
from simulmt.programs.plain import plain
from simulmt.scoring.faithfulness import KS, Counted, anticipation_rate
from simulmt.system.console import say
from simulmt.system.disk import check_writable, write_json, write_text


@dataclass(frozen=True)
class AlignOptions:
    """The options of `conf/align.yaml`, which explains each of them."""

    source: Path | None
    target: Path | None
    split: Literal["train", "valid", "test"]
    symmetrise: str
    to: Path | None
    links: Path | None
    anticipation: Path | None
    data: Config | None = None

    def __post_init__(self) -> None:
        pick(SYMMETRISE, self.symmetrise, "symmetrise")
        if self.links and (self.to or not self.anticipation):
            why = f"links={self.links} are measured, not written"
            raise UserError(f"{why}: give anticipation=FILE, and leave out to")
        files = (self.source, self.target)
        if (None in files) if self.data is None else (files != (None, None)):
            raise UserError(
                f"source={self.source}, target={self.target} and data="
                f"{self.data and self.data.get('name')}: give both files, or only data=PRESET"
            )


def align(cfg: DictConfig) -> None:
    """Align all pairs, and write a line of links for each, `0-0 1-2`; or measure given links.

    Raises:
        UserError: a mistake that a user can correct.
    """
    options = construct(AlignOptions, plain(cfg), "")
    to, measured = (place and place.absolute() for place in (options.to, options.anticipation))
    for place in filter(None, (to, measured)):
        check_writable(place.parent)
    if options.links is None:
        check_installed()
    splits = _splits(options)
    links = _links(options, splits)
    text = "".join(format_links(pair) + "\n" for pair in links)
    if to:
        write_text(to, text)
        print(f"written: {options.to}, {len(links):,} lines")
    elif not measured:
        sys.stdout.write(text)
    if measured:
        linked = [*map(by_target, links, map(word_count, splits[0].targets))]
        origin = "file" if options.links else f"eflomal:{options.symmetrise}"
        writing = Data.of(options.data).writing if options.data else WORDS
        counted = Counted(origin, of="reference", writing=writing)
        figures = {f"AR{k}": anticipation_rate(linked, k, counted) for k in KS}
        write_json(measured, figures)
        for rate in figures.values():
            say(f"{rate.form():>6}%  {rate.signature}")


def _links(options: AlignOptions, splits: Sequence[Split]) -> list[Links]:
    """Return the links of the first split."""
    if options.links is not None:
        gold = read_links(options.links, splits[0].sources, splits[0].targets)
        return [one.possible for one in gold]
    sources = [line for split in splits for line in split.sources]
    targets = [line for split in splits for line in split.targets]
    return align_text(sources, targets, options.symmetrise, len(splits[0]))


def _splits(options: AlignOptions) -> Sequence[Split]:
    """Return the pairs; to align another split than `train`, the training pairs as well."""
    if options.source is None or options.target is None:
        splits = build_corpus(options.data or {}).splits
        names = (options.split,) if options.links else (options.split, "train")
        return [splits[name] for name in dict.fromkeys(names)]
    split = Split([*text_lines(options.source)], [*text_lines(options.target)])
    if len(split.sources) != len(split.targets):
        raise UserError(
            f"source={options.source} has {len(split.sources):,} lines but target={options.target} "
            f"has {len(split.targets):,}: give files in which line n translates line n"
        )
    return [split]
