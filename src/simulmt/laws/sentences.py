"""Random sentences, and decoding along given targets."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt.decoding import forced
from simulmt.models.model import Model
from simulmt.models.vocabulary import Vocabulary

VOCABULARY = Vocabulary(30, begins=tuple(n < 4 or n % 2 > 0 for n in range(30)))


def sentences(
    count: int, longest: int, seed: int = 1, vocabulary: Vocabulary = VOCABULARY
) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Return padded random sources, each ending in EOS, with their mask; the first is `longest`."""
    generator = torch.Generator().manual_seed(seed)
    source = _words((count, longest), generator, vocabulary)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator)
    lengths[0] = longest
    places = torch.arange(longest)
    source[places == lengths[:, None] - 1] = vocabulary.eos
    mask = places < lengths[:, None]
    return source.masked_fill(~mask, vocabulary.pad), mask


def targets(
    count: int, length: int, seed: int = 2, vocabulary: Vocabulary = VOCABULARY
) -> Int[Tensor, "B T"]:
    """Return random inputs of the decoder, BOS first."""
    target = _words((count, length), torch.Generator().manual_seed(seed), vocabulary)
    target[:, 0] = vocabulary.bos
    return target


def _words(shape: tuple[int, int], random: torch.Generator, of: Vocabulary) -> Int[Tensor, "B N"]:
    return torch.randint(max(of.special) + 1, of.size, shape, generator=random)


def forced_steps(
    made: Model,
    source: Int[Tensor, "B S"],
    mask: Bool[Tensor, "B S"],
    target: Int[Tensor, "B T"],
    gradients: bool = False,
) -> tuple[Float[Tensor, "B T V"], Int[Tensor, "B T"]]:
    """Return logits and delays of step-by-step decoding along given target tokens."""
    with torch.set_grad_enabled(gradients):
        steps = [*forced.forced_steps(made, made.encode(source, mask), target)]
    if any(step.wants_to_read.any() for step in steps):
        raise AssertionError("A step wants to read on after the source's end.")
    logits, delays = [step.logits for step in steps], [step.read for step in steps]
    return torch.stack(logits, 1), torch.stack(delays, 1)


def short_limit(read: Int[Tensor, "B"]) -> Int[Tensor, "B"]:
    """Return an earlier limit of a translation's length: untrained models rarely end early.

    Like the real limit, this one depends only on what the heads have read.
    """
    return read + 3
