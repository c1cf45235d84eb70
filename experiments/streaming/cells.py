"""Decodes sentences in a batch and as streams, in float64, and counts what differs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor

from simulmt.attention.schedules import MonotonicHeads
from simulmt.data.encoded import EncodedSplit
from simulmt.data.subwords import Subwords
from simulmt.decoding.greedy import greedy
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.live.translator import Translator
from simulmt.models.lstm import LSTM
from simulmt.models.model import Model
from simulmt.models.vocabulary import Vocabulary
from simulmt.parts.builders import build_mechanism, build_model

CONF = Path(__file__).resolve().parents[2] / "conf"
CPU = torch.device("cpu")
GO_ON = 0.6
"""Share of the decisions in which some head of a random model does not stop at once."""
SHARPER = 4.0
"""How much larger the weights of a random model are than fresh ones."""


@dataclass(frozen=True)
class Cell:
    """A mechanism on a model, by the names of their files in `conf`, and where its weights are."""

    model: str
    mechanism: str
    run: Path | None
    """None for random weights."""

    @property
    def weights(self) -> str:
        """Return the name of the weights in tables."""
        return "trained" if self.run else "random"


@dataclass(frozen=True)
class Counts:
    """Counts over some sentences: first of sentences, from `words` on of words or delays."""

    sentences: int = 0
    tokens: int = 0
    """Sentences whose subwords differ."""
    subword_delays: int = 0
    word_delays: int = 0
    mismatches: int = 0
    """Sentences in which any of these differs."""
    words: int = 0
    early: int = 0
    """Words that were written before all of the source was read."""
    held: int = 0
    """Words that the translator wrote later, since their end was not known at first."""
    held_for: int = 0
    """How many more source words these waited for, in all."""

    def __add__(self, other: Counts) -> Counts:
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return Counts(*(mine + others for mine, others in pairs))


@torch.inference_mode()
def compare(cell: Cell, sources: Sequence[str], subwords: Subwords) -> Counts:
    """Decode sentences in a batch and as streams.

    Args:
        cell: what decodes.
        sources: the sentences.
        subwords: for random weights; checkpoints have their own.
    """
    translator = _translator(cell, subwords)
    ids = [translator.subwords.encode(source) for source in sources]
    split = EncodedSplit.of(ids, [[]] * len(ids), translator.subwords.vocabulary)
    batch = split.batch(range(len(ids)))
    hypotheses = greedy(translator.model, batch.source, batch.source_mask)
    rows = zip(sources, ids, hypotheses, strict=True)
    return sum((_compare_one(translator, *row) for row in rows), Counts())


def _compare_one(
    translator: Translator, source: str, ids: Sequence[int], batch: Hypothesis
) -> Counts:
    """Translate one sentence word by word, and compare the result with the batch's."""
    subwords, words = translator.subwords, source.split()
    translator.reset()
    arrived: list[int] = []  # source words read when each subword was written
    written: list[int] = []  # ... when each word was written
    for count in range(1, len(words) + 2):
        new = translator.read(words[count - 1]) if count <= len(words) else translator.finish()
        read = min(count, len(words))
        written += [read] * len(new)
        arrived += [read] * (len(translator.stream.written.tokens) - len(arrived))
    live = translator.stream.written
    target = subwords.words_touched(batch.tokens)
    delays = [*target.delays(batch.delays, subwords.words_touched(ids))]
    decoded = subwords.decode(batch.tokens).split()
    tokens = live.tokens != batch.tokens or translator.words_written != decoded
    by_subword = (live.delays, live.positions) != (batch.delays, batch.positions)
    by_word = [arrived[end - 1] for end in subwords.words_touched(live.tokens).ends] != delays
    held = [max(late - delay, 0) for late, delay in zip(written, delays, strict=False)]
    return Counts(
        sentences=1,
        tokens=tokens,
        subword_delays=by_subword,
        word_delays=by_word,
        mismatches=tokens or by_subword or by_word,
        words=len(delays),
        early=sum(delay < len(words) for delay in delays),
        held=sum(more > 0 for more in held),
        held_for=sum(held),
    )


@lru_cache(maxsize=1)
def _translator(cell: Cell, subwords: Subwords) -> Translator:
    if cell.run is None:
        return Translator(
            random_model(cell.model, cell.mechanism, subwords.vocabulary), subwords, CPU
        )
    translator = Translator.load(cell.run, device="cpu")
    translator.model.double()
    return translator


def options_of(group: str, name: str) -> dict[str, Any]:
    """Return the options of a group's file, without the other groups that it chooses."""
    file = OmegaConf.load(CONF / group / f"{name}.yaml")
    options: Any = OmegaConf.to_container(file, resolve=True)
    return {key: value for key, value in options.items() if key != "defaults"}


def random_model(kind: str, mechanism: str, vocabulary: Vocabulary) -> Model:
    """Return a random float64 model whose learned heads take varied decisions, mostly early."""
    torch.manual_seed(0)
    parts = build_mechanism(options_of("mechanism", mechanism))
    parts.attention(dim=1, heads=1)  # draws first, as when the table's models were drawn
    model = build_model(options_of("model", kind), parts, vocabulary).double().eval()
    # Fresh weights write one token again and again, so they are enlarged. The layers of LSTMs stay:
    # with large weights they are chaotic, and in 200 words the last digit grows to another word.
    tied = kind == "transformer"  # the embeddings are the output, too
    lstms = [part for part in model.modules() if isinstance(part, LSTM)]
    recurrent = {id(part) for lstm in lstms for part in lstm.modules()}
    for part in model.modules():
        if (isinstance(part, torch.nn.Linear) and id(part) not in recurrent) or (
            isinstance(part, torch.nn.Embedding) and not tied
        ):
            part.weight.data *= SHARPER
    _calibrate(model)
    return model


@torch.no_grad()
def _calibrate(model: Model) -> None:
    """Choose each head's r so that all of them stop at once in most decisions."""
    schedules = [part for part in model.modules() if isinstance(part, MonotonicHeads)]
    energies: dict[MonotonicHeads, list[Tensor]] = {schedule: [] for schedule in schedules}
    words = model.vocabulary
    hooks = [
        schedule.score.register_forward_hook(lambda _, __, energy, at=at: at.append(energy))
        for schedule, at in energies.items()
    ]
    source, target = torch.randint(words.eos + 1, words.size, (2, 8, 20))
    model(source, torch.ones_like(source, dtype=torch.bool), target)
    for hook in hooks:
        hook.remove()
    heads = sum(schedule.heads for schedule in schedules)
    for schedule, seen in energies.items():
        of_heads = torch.cat(seen, 2).transpose(0, 1).flatten(1)  # (B, H, T, S) -> (H, B*T*S)
        schedule.energy_bias.copy_(-of_heads.quantile(GO_ON / heads, 1)[:, None, None])
