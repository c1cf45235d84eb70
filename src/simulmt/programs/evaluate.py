"""`evaluate.py`: score a trained model on a split of its data, or on any other pair of files."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
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
from simulmt.decoding.search import Search
from simulmt.decoding.split_decoder import SplitDecoder
from simulmt.errors import UserError
from simulmt.live.stopwatch import translate_timed
from simulmt.live.translator import Translator
from simulmt.models.model import Model
from simulmt.options import construct, pick
from simulmt.programs.plain import plain
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained
from simulmt.scoring.score import score, write_scores

_SEARCH = ("beam", "length_penalty")
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
    batch_tokens: Any
    beam: Any
    length_penalty: Any
    k: Any
    word_ms: Any
    data_root: Any

    def __post_init__(self) -> None:
        size = self.batch_tokens
        if size is not None and (type(size) is not int or size < 1):
            raise UserError(f"batch_tokens is {size!r}; it must be a whole number from 1, or null")
        if self.word_ms is not None:
            self._check_clock()
        if (self.source, self.target) != (None, None):
            self._check_files()
        elif self.name is not None:
            raise UserError(f"name={self.name} without files; give source=FILE target=FILE, too")

    def _check_clock(self) -> None:
        ms = self.word_ms
        if isinstance(ms, bool) or not isinstance(ms, int | float) or not 0 < ms < math.inf:
            raise UserError(f"word_ms is {ms!r}; it is how long a source word lasts, above 0")
        if self.beam not in (None, 1):
            raise UserError(f"beam={self.beam} with word_ms: a stream is greedy; leave one out")
        if self.length_penalty is not None:
            raise UserError(
                f"word_ms={ms} with length_penalty={self.length_penalty}: word by word nothing is "
                "compared by its length; leave one out"
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
        """What is scored instead of a split."""
        if self.source is None:
            return None
        return Path(str(self.source)).expanduser(), Path(str(self.target)).expanduser()

    @property
    def scored(self) -> str:
        """What the folder and the table call the sentences."""
        if self.source is None:
            return str(self.split)
        stem = Path(Path(str(self.source)).name.removesuffix(".gz")).stem
        return stem if self.name is None else str(self.name)

    @property
    def decoding(self) -> dict[str, Any]:
        """What is asked for otherwise than in training; the folder's name goes on with it."""
        asked = {"k": self.k, "beam": self.beam, "length_penalty": self.length_penalty}
        asked["word_ms"] = self.word_ms
        return {name: value for name, value in asked.items() if value is not None}


def evaluate(cfg: DictConfig) -> None:
    """Decode with a checkpoint and score, as `train` did at its end.

    Raises:
        UserError: anything a user can put right.
    """
    options = construct(Options, plain(cfg), "evaluate.py")
    device = pick_device(options.device)
    text = read_pair(*options.files) if options.files else None
    trained = checkpoint.load(Path(str(options.checkpoint)))
    model = trained.build({} if options.k is None else {"k": options.k})
    search = _search(options, trained.config["decoding"], model)
    chosen = text or _split(options, trained)
    summary.dropped(options.scored, chosen)

    translator = Translator(model.to(device), trained.subwords, device)
    if options.word_ms is None:
        tokens = options.batch_tokens or 2 * trained.config["data"]["batch_tokens"]
        instances, told = _at_once(translator, chosen, tokens, search)
    else:
        instances, told = _timed(translator, chosen, options.word_ms)
    if options.k is not None:
        told["decoding"]["k"] = options.k
    if options.files:
        source, target = map(str, options.files)
        told["text"] = {"source": source, "target": target, "dropped": chosen.dropped}
    scores = score(instances, chosen.needs) | told

    folder = _folder(options, trained.path)
    folder.mkdir(parents=True, exist_ok=True)
    write_instances(folder / "instances.log", instances)
    write_scores(folder / "scores.json", scores)
    summary.results(
        f"{model.mechanism.name} on {options.scored}", scores, instances, trained.path, folder
    )
    if "computing_ms" in scores:
        summary.computing(scores)


def _search(options: Options, then: Mapping[str, Any], model: Model) -> Search:
    """That of training, but for what is asked for."""
    asked = {name: value for name, value in options.decoding.items() if name in _SEARCH}
    search = build_search({**then, **asked}, model)
    if search.beam == 1 and "length_penalty" in asked:
        raise UserError(
            f"length_penalty={asked['length_penalty']} with a beam of 1: greedy decoding compares "
            "no lengths; set beam above 1 (for a mechanism that reads the whole sentence first)"
        )
    return search


def _split(options: Options, trained: Trained) -> Split:
    """A split of the model's own data, the same as then."""
    data = dict(trained.config["data"])
    if options.data_root:
        data["root"] = str(options.data_root)
    corpus = build_corpus(data)
    chosen = pick(corpus.splits, options.split, "split")
    found = manifest(corpus, trained.subwords, [options.split])
    check_manifest(trained.manifest, found, [options.split])
    return chosen


def _at_once(
    translator: Translator, chosen: Split, tokens: int, search: Search
) -> tuple[list[Instance], dict[str, Any]]:
    """In batches of so many tokens."""
    subwords = translator.subwords
    decoder = SplitDecoder(chosen, EncodedSplit.encode(chosen, subwords), subwords, tokens, search)
    instances = decoder(translator.model, translator.device, watch)
    return instances, {"decoding": search.described}


def _timed(
    translator: Translator, chosen: Split, word_ms: float
) -> tuple[list[Instance], dict[str, Any]]:
    """Word by word, with a clock running."""
    instances, computing = translate_timed(translator, chosen, word_ms, watch)
    decoding = {"beam": 1, "live": True, "word_ms": word_ms}
    return instances, {"computing_ms": computing, "decoding": decoding}


def _folder(options: Options, path: Path) -> Path:
    """In the run's directory, or beside a checkpoint that lies elsewhere."""
    home = path if path.is_dir() else path.parent
    home = home.parent if home.name == "checkpoints" else home
    asked = [f"{name}{value}" for name, value in options.decoding.items()]
    return home / "evaluation" / "-".join([options.scored, path.stem, *asked])
