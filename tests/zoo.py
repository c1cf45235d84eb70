"""Every mechanism that `conf/mechanism` offers on every model, small, to hold them to the laws."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

from simulmt.attention.schedules import MonotonicHeads
from simulmt.attention.scores import NormalisedAdditive, ScaledDotProduct
from simulmt.attention.spans.luong import Guess
from simulmt.builders import MODELS, build_mechanism
from simulmt.decoding import forced
from simulmt.decoding.policies import OWN
from simulmt.decoding.policy import Decision, Policy, Progress
from simulmt.models.model import DecoderStep, Model
from simulmt.vocabulary import Vocabulary

CONF = Path(__file__).parents[1] / "conf"
VOCABULARY = 30
SPECIAL = Vocabulary(VOCABULARY)
PAD, UNK, BOS, EOS = SPECIAL[1:]


def options(name: str) -> dict[str, Any]:
    return yaml.safe_load((CONF / "mechanism" / f"{name}.yaml").read_text())


UNPUBLISHED = {
    "wait_k-chunk": options("wait_k") | {"span": "chunk", "chunk": 2},
    "wait_k-predicted": options("wait_k") | {"span": "predicted_window", "window": 2},
    "milk-window": options("milk") | {"span": "window", "window": 2, "gaussian": False},
    "milk-gaussian": options("milk") | {"span": "window", "window": 2, "gaussian": True},
    "mma_il-predicted": options("mma_il") | {"span": "predicted_window", "window": 3},
}


def every_mechanism() -> list[tuple[str, dict[str, Any]]]:
    """All files; a variant of each that lets mass run off the end if it can, narrow windows, the
    other emission rate of the papers, and combinations that no paper has.
    """
    found = [*UNPUBLISHED.items()]
    for path in sorted((CONF / "mechanism").glob("*.yaml")):
        chosen = yaml.safe_load(path.read_text())
        found.append((path.stem, chosen))
        if "mass_preservation" in chosen:
            found.append((f"{path.stem}-leaky", chosen | {"mass_preservation": False}))
        if "window" in chosen:
            found.append((f"{path.stem}-narrow", chosen | {"window": 2}))
        if path.stem == "wait_k":
            found.append(("wait_k-faster", chosen | {"emission_rate": 1.1}))
    return found


MECHANISMS = dict(every_mechanism())
STREAMING = [name for name, chosen in MECHANISMS.items() if not build_mechanism(chosen).offline]
OFFLINE = [name for name in MECHANISMS if name not in STREAMING]
LEARNED = [name for name, chosen in MECHANISMS.items() if build_mechanism(chosen).learned]


GUIDED = "transformer with averages"
REENCODING = "transformer that encodes every prefix"
RECURRENT = {"dim": 32, "heads": 4, "encoder_layers": 3, "decoder_layers": 3, "dropout": 0.0}
SIZES: dict[str, dict[str, Any]] = {
    "transformer": {
        "dim": 32,
        "ffn": 48,
        "heads": 4,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "dropout": 0.0,
        "norm": "pre",
        "encoder": "causal",
    },
    GUIDED: {},
    REENCODING: {},
    "rnmt_plus": RECURRENT | {"encoder": "causal"},
    "luong": RECURRENT | {"input_feeding": True},
}
SIZES[GUIDED] = SIZES["transformer"] | {"average_embedding": True}
SIZES[REENCODING] = SIZES["transformer"] | {"encoder": "reencoding"}


def model(
    chosen: dict[str, Any],
    seed: int = 0,
    kind: str = "transformer",
    calibrated: bool = True,
    **overrides: Any,
) -> Model:
    """A small float64 model whose learned heads take varied decisions; the caller may change it.

    A calibrated model of the usual size is built once in a process: every law asks for the same.
    """
    if kind == GUIDED and not averages(chosen):
        pytest.skip("averages are not defined for a Gaussian or for an additive score")
    if kind == REENCODING and (chosen["schedule"] != "wait_k" or chosen["span"] == "window"):
        pytest.skip("prefixes are encoded again for wait-k only")
    if overrides or not calibrated:
        return build(chosen, seed, kind, calibrated, **overrides)
    made, random_state = build_once(tuple(chosen.items()), seed, kind)
    torch.set_rng_state(random_state)  # as if built now: tests draw their targets next
    return copy.deepcopy(made)


@cache
def build_once(chosen: tuple[tuple[str, Any], ...], seed: int, kind: str) -> tuple[Model, Tensor]:
    return build(dict(chosen), seed, kind, calibrated=True), torch.get_rng_state()


def build(
    chosen: dict[str, Any], seed: int, kind: str, calibrated: bool, **overrides: Any
) -> Model:
    mechanism = build_mechanism(chosen)
    torch.manual_seed(seed)
    mechanism.attention(dim=1, heads=1)  # draws first, as when the seeds were chosen
    settings = SIZES[kind] | {"vocabulary": SPECIAL, "mechanism": mechanism}
    made = MODELS[kind.split(maxsplit=1)[0]](**(settings | overrides)).double().eval()
    for part in made.modules():
        if isinstance(part, ScaledDotProduct):
            part.query.bias.data.normal_()
        elif isinstance(part, NormalisedAdditive):
            part.hidden.query.weight.data *= 20
            part.hidden.key.weight.data *= 20
        elif isinstance(part, Guess):
            part.hidden.weight.data *= 20
    if calibrated:
        calibrate(made)
        sharpen(made, 20.0)
    return made


def averages(chosen: dict[str, Any]) -> bool:
    """Whether averages of what was read are defined for it."""
    dampens = chosen["span"] == "predicted_window" or chosen.get("gaussian")
    return not dampens and chosen.get("score") not in ("additive", "concat")


QUANTILE = 0.3


def calibrate(made: Model) -> None:
    """Choose r so that a lone head often stops, and the slowest of many soon enough."""
    schedules = [part for part in made.modules() if isinstance(part, MonotonicHeads)]
    energies: list[list[Tensor]] = [[] for _ in schedules]
    handles = [
        part.score.register_forward_hook(lambda _, __, out, seen=seen: seen.append(out))
        for part, seen in zip(schedules, energies, strict=True)
    ]
    source, mask = sentences(8, 9, seed=7)
    with torch.no_grad():
        made(source, mask, source)
    for handle in handles:
        handle.remove()
    heads = sum(part.heads for part in schedules)
    for part, seen in zip(schedules, energies, strict=True):
        found = torch.cat(seen, 2).transpose(0, 1).flatten(1)  # (H, ...)
        part.energy_bias.data = -found.quantile(QUANTILE / heads, 1)[:, None, None]


def sharpen(made: Model, factor: float) -> Model:
    """Scale the selection energies: large ones saturate p at 0 or 1."""
    for part in made.modules():
        if isinstance(part, MonotonicHeads):
            part.energy_bias.data *= factor
            if isinstance(part.score, ScaledDotProduct):
                part.score.query.weight.data *= factor
                part.score.query.bias.data *= factor
            elif isinstance(part.score, NormalisedAdditive):
                part.score.gain.data *= factor
    return made


def sentences(count: int, longest: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Random sources ending in EOS, padded, with their mask; the first has full length."""
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(4, VOCABULARY, (count, longest), generator=generator)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator)
    lengths[0] = longest
    places = torch.arange(longest)
    source[places == lengths[:, None] - 1] = 3
    mask = places < lengths[:, None]
    return source.masked_fill(~mask, 0), mask


def forced_steps(
    made: Model, source: Tensor, mask: Tensor, target: Tensor, gradients: bool = False
) -> Any:
    """Step-by-step decoding along given target tokens: logits (B, T, V) and delays (B, T)."""
    with torch.set_grad_enabled(gradients):
        steps = [*forced.forced_steps(made, made.encode(source, mask), target)]
    logits, delays = [step.logits for step in steps], [step.read for step in steps]
    return torch.stack(logits, 1), torch.stack(delays, 1)


class Brief(Policy):
    """The model's own decision, and an earlier end: untrained models write until they are stopped.

    Like the real limit, this one depends on nothing but what the heads have read.
    """

    def decide(self, vocabulary: Vocabulary, progress: Progress, said: DecoderStep) -> Decision:
        own = OWN.decide(vocabulary, progress, said)
        full = progress.written >= said.read + 3
        return own._replace(ends=own.ends | (full & ~own.reads))


BRIEF = Brief()
