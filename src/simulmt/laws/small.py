"""Small models of every kind, whose fresh weights make varied decisions."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor

from simulmt.attention.schedules import MonotonicHeads
from simulmt.attention.scores import NormalisedAdditive, Perceptron, ScaledDotProduct
from simulmt.attention.spans.luong import Guess
from simulmt.laws.sentences import VOCABULARY, sentences
from simulmt.models.luong import Luong
from simulmt.models.model import Model
from simulmt.models.rnmt_plus import RnmtPlus
from simulmt.models.transformer import Transformer
from simulmt.options import Config

Make = Callable[..., Model]
"""Builds a small model: `make(mechanism=...)`."""

DIM = 32
QUANTILE = 0.3
UNTIED = 1e-6
"""Keeps energies that are exactly equal, as a ReLU makes them, off the odds of one to one."""

_SIZE: Config = {"vocabulary": VOCABULARY, "dim": DIM, "heads": 4, "dropout": 0.0}
_TWO: Config = {"encoder_layers": 2, "decoder_layers": 2}
_THREE: Config = {"encoder_layers": 3, "decoder_layers": 3}
transformer = partial(Transformer, **_SIZE, **_TWO, ffn=48, norm="pre", encoder="causal")
SMALL: dict[str, Make] = {
    "transformer": transformer,
    "rnmt_plus": partial(RnmtPlus, **_SIZE, **_THREE, encoder="causal"),
    "luong": partial(Luong, **_SIZE, **_THREE, input_feeding=True),
}
"""A model of each kind; HMT needs a Transformer."""
GUIDED = "transformer with averages"
REENCODING = "transformer that encodes every prefix"
BY_WORD = "transformer that sees whole words"
VARIANTS: dict[str, Make] = {
    BY_WORD: partial(transformer, encoder="by_word"),
    GUIDED: partial(transformer, average_embedding=True),
    REENCODING: partial(transformer, encoder="reencoding"),
}
"""Variants that reject some mechanisms."""


def vary(made: Model) -> None:
    """Enlarge the fresh weights of this package's parts, so that their decisions vary."""
    for part in made.modules():
        if isinstance(part, ScaledDotProduct):
            part.query.bias.data.normal_()
        elif isinstance(part, NormalisedAdditive):
            part.hidden.query.weight.data *= 20
            part.hidden.key.weight.data *= 20
        elif isinstance(part, Perceptron):
            for parameter in part.parameters():
                parameter.data.normal_(std=2 / math.sqrt(DIM))
        elif isinstance(part, Guess):
            part.hidden.weight.data *= 20
    _calibrate(made)


def _calibrate(made: Model) -> None:
    """Choose each energy bias so that the slowest head stops about as often as a single head."""
    schedules = [part for part in made.modules() if isinstance(part, MonotonicHeads)]
    if not schedules:
        return
    energies = {part: list[Tensor]() for part in schedules}
    source, mask = sentences(8, 9, seed=7, vocabulary=made.vocabulary)
    with ExitStack() as hooks, torch.no_grad():
        for part, seen in energies.items():
            hook = part.score.register_forward_hook(lambda _, __, out, seen=seen: seen.append(out))
            hooks.enter_context(hook)
        made(source, mask, source)
    heads = sum(part.heads for part in schedules)
    for part, seen in energies.items():
        found = torch.cat(seen, 2).transpose(0, 1).flatten(1)  # (H, ...)
        usual = found.quantile(QUANTILE / heads, 1)[:, None, None]
        part.energy_bias.data = -usual - UNTIED
