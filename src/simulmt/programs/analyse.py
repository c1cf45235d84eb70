"""`analyse.py`: a study of finished runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig

from simulmt.alignment.links import Links
from simulmt.analysis.page import REMEDY
from simulmt.analysis.runs.found import comparable, find_runs
from simulmt.analysis.studies import STUDIES
from simulmt.analysis.studies.aer import attention_links
from simulmt.analysis.studies.forced import forced_words
from simulmt.analysis.studies.run_set import AttentionLinks, DecodedTestSet, RunSet, write_result
from simulmt.attention.attention import Attention
from simulmt.data.batches import ordered_batches
from simulmt.data.corpus import Corpus, Split
from simulmt.data.encoded import EncodedSplit
from simulmt.decoding.instance import Instance
from simulmt.files.run_directory import CONFIG
from simulmt.models.model import Model
from simulmt.options import construct, pick
from simulmt.parts.builders import build_corpus, build_search, pick_device
from simulmt.parts.configuration import Setup
from simulmt.programs.plain import plain
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained, text_cache
from simulmt.scoring.split_decoder import SplitDecoder
from simulmt.system.console import watch
from simulmt.system.disk import check_writable, read_json

_OF_STUDIES = ("unit", "bins", "links", "aligner", "strength", "several")


@dataclass(frozen=True)
class AnalyseOptions:
    """The options of `conf/analyse.yaml`, which explains each of them."""

    study: Any
    runs: Path
    to: Path | None
    unit: Any
    bins: Any
    links: Any
    aligner: Any
    strength: Any
    several: Any
    decodings: bool
    device: str
    data_root: Path | None
    plugins: list[str]


def analyse(cfg: DictConfig) -> None:
    """Make a study, and print the places of its figure and its table.

    Raises:
        UserError: a mistake that a user can correct.
    """
    options = construct(AnalyseOptions, plain(cfg), "")
    study, folder = pick(STUDIES, options.study, "study"), options.runs
    reader = _Reader(options.data_root, pick_device(options.device))
    found, target = find_runs(folder, options.decodings), options.to or folder / "analysis"
    check_writable(target, REMEDY)
    for note in found.left_out:
        print(f"left out: {note}")
    ways = (reader.read, reader.decode, reader.attend, reader.force, reader.link)
    run_set = RunSet(folder, comparable(found, folder), *ways)
    given = {k: x for k in _OF_STUDIES if (x := getattr(options, k)) is not None}
    result = construct(study, given, f"study={options.study}", {"run_set": run_set})
    print(f"written: {', '.join(map(str, write_result(result, target, options.study)))}")


@dataclass(frozen=True)
class _Reader:
    """Reads the data and the model of a run directory.

    Attributes:
        root: The folder of the text files, if they have moved.
        device: The device of the models.
    """

    root: Path | None
    device: torch.device

    def read(self, run: Path) -> Corpus:
        """Return the corpus of a run."""
        setup = Setup.of(read_json(run / CONFIG))
        return build_corpus(setup.data, self.root, text_cache(setup.cache))

    def decode(self, run: Path) -> DecodedTestSet:
        """Return the test set, decoded as `train.py` decoded it."""
        trained, model, split, encoded, tokens = self._test_set(run)
        search = build_search(trained.setup.decoding, model)
        decoder = SplitDecoder(split, encoded, trained.subwords, tokens, search)
        parts = () if model.mechanism.clocked else model.modules()  # a clock decides for all heads
        heads = [part.heads for part in parts if isinstance(part, Attention)]
        return DecodedTestSet(decoder(model), heads)

    def attend(self, run: Path) -> AttentionLinks:
        """Return where the model attends while it is given the references of the test set."""
        trained, model, _, encoded, tokens = self._test_set(run)
        batches = map(encoded.batch, ordered_batches(encoded.lengths, tokens))
        return attention_links(model, trained.subwords, batches, self.device)

    def force(self, run: Path) -> list[Instance]:
        """Return the references of the test set, with the delays of a model that writes them."""
        trained, model, split, encoded, tokens = self._test_set(run)
        batches = map(encoded.batch, watch(ordered_batches(encoded.lengths, tokens), "forcing"))
        forced = forced_words(model, trained.subwords, batches, self.device)
        delays = {i: target.delays(own.read.tolist(), source) for i, own, source, target in forced}
        pairs = zip(split.sources, split.targets, strict=True)
        return [Instance(i, x, y, y, delays[i]) for i, (x, y) in enumerate(pairs)]

    def link(self, aligner: Path, pairs: Sequence[tuple[str, str]]) -> list[Links]:
        """Return the links of sentence pairs in the attention of a model, a mean over its layers.

        A pair with an empty side has no links.
        """
        trained = checkpoint.load(aligner)
        filled = [pair for pair in pairs if all(pair)]
        split = Split([source for source, _ in filled], [target for _, target in filled])
        encoded = EncodedSplit.encode(split, trained.subwords)
        order = ordered_batches(encoded.lengths, 2 * trained.setup.batch_tokens)
        batches, model = map(encoded.batch, watch(order, "aligning")), trained.build()
        found = attention_links(model.to(self.device), trained.subwords, batches, self.device)
        links = dict(zip(filled, next(iter(found.values())), strict=True))  # of all layers
        return [links.get(pair, frozenset()) for pair in pairs]

    def _test_set(self, run: Path) -> tuple[Trained, Model, Split, EncodedSplit, int]:
        """Return a trained model of a run, its test set, and the tokens of a batch."""
        trained = checkpoint.load(run)
        split = trained.own_split("test", self.root)
        encoded = EncodedSplit.encode(split, trained.subwords)
        tokens = 2 * trained.setup.batch_tokens
        return trained, trained.build().to(self.device), split, encoded, tokens
