"""`evaluate.py`: score a trained model on a split of its data, or on any other pair of files."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from simulmt.analysis import summary
from simulmt.builders import build_corpus, build_search, pick_device
from simulmt.console import watch
from simulmt.data.corpus import SPLITS, Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.manifest import check_manifest, manifest
from simulmt.data.text import read_pair
from simulmt.decoding.instance import Instance, write_instances
from simulmt.decoding.search import GREEDY, Search
from simulmt.decoding.split_decoder import SplitDecoder
from simulmt.errors import UserError
from simulmt.live.stopwatch import translate_timed
from simulmt.live.translator import Translator
from simulmt.models.model import Model
from simulmt.options import construct, pick
from simulmt.programs.plain import plain
from simulmt.run_directory import EVALUATED, EVALUATION, INSTANCES, run_of, write_json
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained
from simulmt.scoring.score import score
from simulmt.scoring.scores import Decoding, Scores, Text

_NAME = re.compile(r"[\w.+-]{1,60}")


@dataclass(frozen=True)
class Options:
    """`conf/evaluate.yaml` says what each entry means."""

    checkpoint: Any
    split: Any
    source: Any
    target: Any
    name: Any
    device: str
    batch_tokens: int | None
    beam: int | None
    length_penalty: float | None
    dial: dict[str, Any]
    word_ms: float | None
    data_root: Any

    def __post_init__(self) -> None:
        if self.batch_tokens is not None and self.batch_tokens < 1:
            raise UserError(f"batch_tokens is {self.batch_tokens}; it must be at least 1, or null")
        if self.word_ms is not None:
            self._check_clock(self.word_ms)
        if (self.source, self.target) != (None, None):
            self._check_files()
        elif self.name is not None:
            raise UserError(f"name={self.name} without files; give source=FILE target=FILE, too")

    def _check_clock(self, ms: float) -> None:
        if not 0 < ms < math.inf:
            raise UserError(f"word_ms is {ms!r}; a source word lasts so many ms, more than 0")
        if self.beam not in (None, 1):
            raise UserError(f"beam={self.beam} with word_ms: a stream is greedy; leave one out")
        if self.length_penalty is not None:
            raise UserError(
                f"word_ms={ms} with length_penalty={self.length_penalty}: a stream is greedy and "
                "compares no lengths; leave one out"
            )

    def _check_files(self) -> None:
        if self.source is None or self.target is None:
            raise UserError(
                f"source is {self.source}, target {self.target}; give both files, or neither to "
                "score a split"
            )
        data = {"split": None if self.split == "test" else self.split, "data_root": self.data_root}
        for key, value in data.items():
            if value is not None:
                raise UserError(
                    f"{key}={value} with source={self.source}: files are scored instead of a "
                    f"split; leave out {key}, or source and target"
                )
        if not _NAME.fullmatch(self.scored) or self.scored.lower() in SPLITS:
            raise UserError(
                f"name is {self.scored!r}; it is part of a folder's name, up to 60 letters, digits "
                f"or ._+-, and none of the splits {', '.join(SPLITS)}: set name=NAME"
            )

    @property
    def files(self) -> tuple[Path, Path] | None:
        """The source and target files that are scored instead of a split, if any."""
        if self.source is None:
            return None
        return Path(str(self.source)).expanduser(), Path(str(self.target)).expanduser()

    @property
    def scored(self) -> str:
        """The name of the sentences in the folder and in the table."""
        if self.source is None:
            return str(self.split)
        stem = Path(Path(str(self.source)).name.removesuffix(".gz")).stem
        return stem if self.name is None else str(self.name)

    @property
    def search(self) -> dict[str, float]:
        """The options of the search that were set."""
        options = {"beam": self.beam, "length_penalty": self.length_penalty}
        return {name: value for name, value in options.items() if value is not None}

    @property
    def set_otherwise(self) -> list[str]:
        """All that was set otherwise than in training, for the name of the folder."""
        clock = {} if self.word_ms is None else {"word_ms": self.word_ms}
        options = {**self.dial, **self.search, **clock}
        return [f"{name}{value}" for name, value in options.items()]


def evaluate(cfg: DictConfig) -> None:
    """Decode with a checkpoint and score, as `train` does at its end.

    Raises:
        UserError: anything a user can put right.
    """
    options = construct(Options, plain(cfg), "evaluate.py")
    device = pick_device(options.device)
    text = read_pair(*options.files) if options.files else None
    trained = checkpoint.load(Path(str(options.checkpoint)))
    model = trained.build(options.dial)
    search = _search(options, trained, model)
    split = text or _split(options, trained)
    summary.dropped(options.scored, split)

    translator = Translator(model.to(device), trained.subwords, device)
    scores, instances = _decode(options, trained, translator, split, search)
    folder = _folder(options, trained.path)
    folder.mkdir(parents=True, exist_ok=True)
    write_instances(folder / INSTANCES, instances)
    write_json(folder / EVALUATED, scores)
    summary.results(
        f"{model.mechanism.name} on {options.scored}", scores, instances, trained.path, folder
    )
    summary.computing(scores)


def _search(options: Options, trained: Trained, model: Model) -> Search:
    """Return the search of the training, with the options that were set."""
    then = trained.config["decoding"]
    search = build_search({**then, **options.search}, model)
    if search.beam == 1 and options.length_penalty is not None:
        raise UserError(
            f"length_penalty={options.length_penalty} with a beam of 1: greedy decoding compares "
            "no lengths; set beam above 1 (for a mechanism that reads the whole sentence first)"
        )
    return search if options.word_ms is None else GREEDY


def _split(options: Options, trained: Trained) -> Split:
    """Return a split of the model's own data, which must be the same as in training."""
    data = dict(trained.config["data"])
    if options.data_root:
        data["root"] = str(options.data_root)
    corpus = build_corpus(data)
    split = pick(corpus.splits, options.split, "split")
    described = manifest(corpus, trained.subwords, [options.split])
    check_manifest(trained.manifest, described, [options.split])
    return split


def _decode(
    options: Options, trained: Trained, translator: Translator, split: Split, search: Search
) -> tuple[Scores, list[Instance]]:
    """Decode in batches or, with a clock, word by word."""
    subwords, computing, text = translator.subwords, None, None
    if options.word_ms is None:
        tokens = options.batch_tokens or 2 * trained.config["data"]["batch_tokens"]
        decoder = SplitDecoder(
            split, EncodedSplit.encode(split, subwords), subwords, tokens, search
        )
        instances = decoder(translator.model, translator.device, watch)
    else:
        instances, computing = translate_timed(translator, split, options.word_ms, watch)
    if options.files:
        source, target = map(str, options.files)
        text = Text(source, target, split.dropped)
    decoding = replace(
        Decoding.by(search, trained.path, options.scored),
        dials=options.dial,
        word_ms=options.word_ms,
        text=text,
    )
    return score(instances, split.needs, decoding, computing), instances


def _folder(options: Options, path: Path) -> Path:
    """Return a folder in the run's directory, or beside a checkpoint that lies elsewhere."""
    home = path if path.is_dir() else run_of(path) or path.parent
    return home / EVALUATION / "-".join([options.scored, path.stem, *options.set_otherwise])
