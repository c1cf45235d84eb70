"""Callbacks: the progress bar, and the development set decoded simultaneously to find the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import RichProgressBar
from torch import distributed

from simulmt.data.batches import EncodedSplit, OrderedBatches, collate_pairs
from simulmt.data.corpus import Split
from simulmt.data.subwords import Subwords
from simulmt.decoding.corpus import decode_split
from simulmt.decoding.instance import Instance
from simulmt.decoding.search import Search
from simulmt.models.model import Model
from simulmt.run_directory import SAMPLES, STEP
from simulmt.scoring.conventions import UNITS
from simulmt.scoring.score import score
from simulmt.scoring.scores import Scores
from simulmt.training.module import TranslationModule
from simulmt.training.weights_and_biases import show_samples

Watch = Callable[[list[list[int]]], Iterable[list[int]]]


class Decoder:
    """Decodes one split over all processes; every process gets every instance.

    Args:
        split: the sentences.
        encoded: the same as subwords.
        subwords: the vocabulary.
        tokens: token budget of a batch, for all hypotheses together.
        search: greedy or beam search.
    """

    def __init__(
        self,
        split: Split,
        encoded: EncodedSplit,
        subwords: Subwords,
        tokens: int,
        search: Search,
    ) -> None:
        self.split = split
        self.encoded = encoded
        self.subwords = subwords
        self.tokens = max(1, tokens // search.beam)
        self.search = search

    def __call__(
        self,
        model: Model,
        device: torch.device,
        rank: int = 0,
        world_size: int = 1,
        watch: Watch = iter,
    ) -> list[Instance]:
        """The instances in the order of the split, none missing and none twice.

        Args:
            model: what decodes.
            device: where it is.
            rank: of this process.
            world_size: number of processes.
            watch: wraps the loop over batches, to show how far it is.
        """
        lengths = self.encoded.lengths
        chosen = [*OrderedBatches(lengths, self.tokens, rank=rank, world_size=world_size)]
        batches = (collate_pairs([self.encoded[row] for row in rows]) for rows in watch(chosen))
        was_training = model.training
        model.eval()
        found = [*decode_split(model, self.subwords, self.split, batches, device, self.search)]
        model.train(was_training)
        return sorted(_gather(found), key=lambda instance: instance.index)


def _gather(found: list[Instance]) -> Iterable[Instance]:
    if not (distributed.is_available() and distributed.is_initialized()):
        return found
    parts: list[list[Instance]] = [[] for _ in range(distributed.get_world_size())]
    distributed.all_gather_object(parts, found)
    return [instance for part in parts for instance in part]


class Progress(RichProgressBar):
    """Lightning's bar with a few of the logged figures, under short names."""

    SHOWN: ClassVar[dict[str, tuple[str, str]]] = {
        "train/loss": ("loss", ".3f"),
        "train/latency": ("latency", ".2f"),
        "train/tokens_per_s": ("tokens/s", ",.0f"),
        "valid/BLEU": ("dev BLEU", ".1f"),
        "valid/word/DAL": ("dev DAL", ".1f"),
    }

    def get_metrics(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule
    ) -> dict[str, int | str | float | dict[str, float]]:
        """How far the run is, and the figures, renamed and rounded."""
        found = trainer.progress_bar_metrics
        figures = {
            short: format(found[name], form)
            for name, (short, form) in self.SHOWN.items()
            if name in found
        }
        return {"update": f"{trainer.global_step}/{trainer.max_steps}", **figures}

    def _get_train_description(self, current_epoch: int) -> str:
        # Lightning's own adds "/-2" where no last epoch is set
        return f"epoch {current_epoch + 1}"


class SimultaneousDecoding(pl.Callback):
    """Decodes the development set at every validation and logs quality and latency.

    Logs `valid/BLEU`, `valid/chrF`, `valid/word/AL` and so on, and `valid/selection`, which the
    best checkpoint has most of (see `selection`).

    Args:
        decoder: of the development set.
        dal_range: wanted word-level DAL, (least, most); None for any.
        samples: sentences shown in the logger's table.
    """

    def __init__(
        self, decoder: Decoder, dal_range: tuple[float, float] | None, samples: int = 5
    ) -> None:
        self.decoder = decoder
        self.dal_range = dal_range
        self.samples = samples

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Decode, score, log."""
        assert isinstance(pl_module, TranslationModule)
        instances = self.decoder(
            pl_module.model, pl_module.device, trainer.global_rank, trainer.world_size
        )
        scores = score(instances, None)
        values = flat(scores)
        in_force = pl_module.objective.strength(trainer.global_step) == 1.0
        values["selection"] = selection(scores, self.dal_range, in_force)
        for name, value in values.items():
            pl_module.log(f"valid/{name}", value, prog_bar=True)
        if trainer.is_global_zero:
            self._show(trainer, instances[: self.samples])

    @staticmethod
    def _show(trainer: pl.Trainer, instances: Sequence[Instance]) -> None:
        """A table of sample translations in the run directory, and in W&B."""
        columns = ["source", "reference", "prediction", "delays"]
        rows = [
            [i.source, i.reference, i.prediction, " ".join(map(str, i.delays))] for i in instances
        ]
        folder = Path(trainer.default_root_dir) / SAMPLES
        folder.mkdir(exist_ok=True)
        text = "".join("\t".join(row) + "\n" for row in [columns, *rows])
        name = STEP.format(step=trainer.global_step)
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")
        show_samples(trainer.loggers, "valid/samples", instances)


def flat(scores: Scores) -> dict[str, float]:
    """Return quality and latencies under one-line names; NaN where there is no figure."""
    quality = ("BLEU", "chrF")  # the same in both units
    values = {name: float(scores["paper", "word"][name]) for name in quality}
    for unit in UNITS:
        latencies = {n: s for n, s in scores["paper", unit].items() if n not in quality}
        values |= {f"{unit}/{name}": float(score) for name, score in latencies.items()}
    return values


def selection(scores: Scores, dal_range: tuple[float, float] | None, in_force: bool) -> float:
    """What the best checkpoint has most of.

    Args:
        scores: of the development set.
        dal_range: wanted word-level DAL (as Ma et al. 2020 select), None for any.
        in_force: whether the latency weights have grown to their values.

    Returns:
        BLEU; -1 minus the distance outside the range; at most -1000 before the weights are in
        force, so that a model that has not yet learnt to be quick is a last resort.
    """
    figures = scores["paper", "word"]
    bleu, dal = float(figures["BLEU"]), figures["DAL"].value
    if dal_range is not None:
        least, most = dal_range
        outside = math.inf if dal is None else max(least - dal, dal - most, 0.0)
        bleu = -1 - min(outside, 900.0) if outside else bleu
    return bleu if in_force else bleu - 1100
