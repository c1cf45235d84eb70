"""The runs that a study is made from, and the result that the study returns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.figure import Figure

from simulmt.alignment.links import Gold, Links, known_links, read_links
from simulmt.analysis.figures.panels import save
from simulmt.analysis.page import REMEDY
from simulmt.analysis.runs.logs import sentences_of
from simulmt.analysis.runs.run import Row, Run
from simulmt.analysis.studies.forced import AttentionLinks, attention_links, forced_words
from simulmt.analysis.tables.names import run_names
from simulmt.attention.attention import Attention
from simulmt.data.batches import ordered_batches
from simulmt.data.corpus import Corpus, Split
from simulmt.data.encoded import EncodedSplit
from simulmt.decoding.instance import Instance, of_reference
from simulmt.errors import UserError
from simulmt.files.run_directory import CONFIG, INSTANCES
from simulmt.models.model import Model
from simulmt.objective.batch import Batch
from simulmt.parts.builders import build_corpus, build_search
from simulmt.parts.configuration import Setup
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained, text_cache
from simulmt.scoring.split_decoder import SplitDecoder
from simulmt.system.console import watch
from simulmt.system.disk import read_json, write_rows, writing

CPU = torch.device("cpu")
_OF_RUN = ("name", "folder", "mechanism", "model", "k", "lambda", "lambda_var", "seed", "data")


@dataclass(frozen=True)
class RunSet:
    """The runs of a study, and what their data and models say.

    Attributes:
        folder: The folder that was searched for runs.
        runs: Finished runs, at least one, all tested on the same data.
        root: The folder of the text files, if they have moved.
        device: The device of the models.
    """

    folder: Path
    runs: Sequence[Run]
    root: Path | None = None
    device: torch.device = CPU

    @cached_property
    def data(self) -> Corpus:
        """The data that all runs were tested on, with word alignments where there are any."""
        config = read_json(self.folder / self.runs[0].home / CONFIG)
        setup = Setup.of(config.get("config", config))  # of an exported model it is an entry
        return build_corpus(setup.data, self.root, text_cache(setup.cache))

    def decode(self, run: Run) -> tuple[list[Instance], list[int]]:
        """Return the test set, decoded as `train.py` decoded it, and the heads of each layer.

        Returns:
            All sentences, with the positions of the heads; and the number of heads of each layer
            that attends to the source, in the order of `Instance.positions`, none if a clock
            decides for all heads.
        """
        trained, model, split = self._test_set(run)
        search = build_search(trained.setup.decoding, model)
        tokens = 2 * trained.setup.batch_tokens
        decoder = SplitDecoder(split, trained.subwords, tokens, search)
        parts = () if model.mechanism.clocked else model.modules()
        heads = [part.heads for part in parts if isinstance(part, Attention)]
        return decoder(model), heads

    def attend(self, run: Run) -> AttentionLinks:
        """Return where the model attends while it is given the references of the test set."""
        trained, model, split = self._test_set(run)
        return attention_links(model, trained.subwords, split, _batches(trained, split))

    def force(self, run: Run) -> list[Instance]:
        """Return the references of the test set, with the delays of a model that writes them."""
        trained, model, split = self._test_set(run)
        batches = _batches(trained, split, "forcing")
        forced = forced_words(model, trained.subwords, split, batches)
        found = {}
        for i, own, words, target in forced:
            read = own.read.tolist()
            stops = (read[end - 1] for end in target.ends)
            found[i] = of_reference(i, split.sources[i], split.targets[i], stops, words)
        return [found[i] for i in range(len(split))]

    def link(self, aligner: Path, pairs: Sequence[tuple[str, str]]) -> list[Links]:
        """Return the links of sentence pairs in the attention of a model, a mean over its layers.

        A pair with an empty side has no links.

        Raises:
            UserError: the model has characters as words where the runs do not, or the reverse.
        """
        trained = checkpoint.load(aligner)
        own, theirs = self.runs[0].scores.writing.sides, trained.subwords.writing.sides
        if own != theirs:
            raise UserError(
                f"aligner={aligner} has data.characters={theirs}, the runs have {own}: give a "
                "model with the same data.characters"
            )
        filled = [pair for pair in pairs if all(pair)]
        split = Split([source for source, _ in filled], [target for _, target in filled])
        model, batches = trained.build().to(self.device), _batches(trained, split, "aligning")
        found = attention_links(model, trained.subwords, split, batches)
        links = dict(zip(filled, next(iter(found.values())), strict=True))  # of all layers
        return [links.get(pair, frozenset()) for pair in pairs]

    def _test_set(self, run: Run) -> tuple[Trained, Model, Split]:
        """Return a trained model of a run, and its test set."""
        trained = checkpoint.load(self.folder / run.home)
        split = trained.own_split("test", self.root)
        return trained, trained.build().to(self.device), split

    def named(self) -> list[tuple[Row, Run]]:
        """Each run with the columns that identify it; `name` has the names of the configuration."""
        names = run_names(self.runs)
        rows = [{"name": names[run.folder], **run.row()} for run in self.runs]
        named = [{column: row[column] for column in _OF_RUN} for row in rows]
        return [*zip(named, self.runs, strict=True)]

    def own(self) -> list[tuple[Row, Run]]:
        """The same without the further decodings, which have no model of their own.

        Raises:
            UserError: there are only further decodings.
        """
        if found := [(columns, run) for columns, run in self.named() if not run.is_decoding]:
            return found
        raise UserError(
            f"{self.folder} has no evaluation by the model's own decision: run simulmt evaluate "
            "without policy and dial"
        )

    def instances(self, run: Run, split: Split | None = None) -> list[Instance]:
        """Return the decoded test set, in words; with a split, check that its text is the split's.

        Raises:
            UserError: `instances.log` is missing, corrupt, incomplete or of another text.
        """
        instances = sentences_of(run)
        texts = [(one.source, one.reference) for one in instances]
        if split and texts != [*zip(split.sources, split.targets, strict=True)]:
            raise UserError(f"{run.path}: {INSTANCES} is not of the run's test set; decode again")
        return instances


def _batches(trained: Trained, split: Split, what: str = "") -> Iterator[Batch]:
    encoded = EncodedSplit.encode(split, trained.subwords)
    order = ordered_batches(encoded.lengths, 2 * trained.setup.batch_tokens)
    return map(encoded.batch, watch(order, what) if what else order)


class Result(NamedTuple):
    """A figure, and its points as the rows of a tidy CSV, all with the same columns."""

    figure: Figure
    rows: Sequence[Row]


def gold_links(split: Split, file: Path | None) -> list[Gold] | None:
    """Return the word alignments of a file, or else those of the data; None if there are none.

    Raises:
        UserError: the links of the file are not of this split.
    """
    if file is not None:
        return read_links(file, split.sources, split.targets)
    return None if split.links is None else [known_links(links) for links in split.links]


def write_result(result: Result, folder: Path, name: str) -> list[Path]:
    """Write NAME.png, NAME.svg and NAME.csv, the same bytes for the same runs.

    Returns:
        The three paths.

    Raises:
        UserError: the folder cannot be written.
    """
    pictures = [folder / f"{name}.png", folder / f"{name}.svg"]
    with writing(folder, REMEDY):
        folder.mkdir(parents=True, exist_ok=True)
        save(result.figure, pictures)
        return [*pictures, write_rows(result.rows, folder / f"{name}.csv")]
