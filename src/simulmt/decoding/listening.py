"""What a model keeps of a sentence while its source arrives, and how sentences listen together."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from simulmt.attention.state import State
from simulmt.models.joined import Joined, form, join
from simulmt.models.model import Model

SHORT = 63
"""Subwords up to which sentences are joined whatever their lengths; longer ones if these are alike,
so that padding costs at most as much as what is real."""


@dataclass(eq=False)
class Listener:
    """One sentence as a model keeps it between two reads.

    Attributes:
        model: In evaluation mode.
        prefix: The subwords read.
        encoder: The encoder's state after the prefix, if it is causal; None before the first token.
        decoder: The decoder before its next step, which has read the prefix.
    """

    model: Model
    prefix: list[int] = field(default_factory=list)
    encoder: State = None
    decoder: State = None

    def forget(self) -> None:
        """Free the states, once the translation has ended."""
        self.encoder = self.decoder = None


def grouped(listeners: Sequence[Listener], units: Sequence[Sequence[int]]) -> list[list[int]]:
    """The numbers of listeners of one model, in groups that take one pass for what each hears."""
    groups = defaultdict[Hashable, list[int]](list)
    for number, (one, unit) in enumerate(zip(listeners, units, strict=True)):
        size = max(len(one.prefix), SHORT).bit_length()
        alone = None if one.model.joins else number
        groups[len(unit), size, form(one.encoder), form(one.decoder), alone].append(number)
    return [*groups.values()]


def encode_units(listeners: Sequence[Listener], units: Sequence[Sequence[int]]) -> Joined:
    """Encode the next tokens of a group of sentences.

    Returns:
        Their decoders, which have read these tokens; the caller gives each back to its sentence.
    """
    model = listeners[0].model
    tokens = torch.tensor([[*unit] for unit in units], device=model.begins.device)
    encoders = join([one.encoder for one in listeners])
    decoders = join([one.decoder for one in listeners])
    source, heard = model.encode_next(tokens, encoders.state)
    after = encoders.grown(heard).alone()
    for one, unit, own in zip(listeners, units, after, strict=True):
        one.prefix += unit
        one.encoder = own
    if decoders.state is None:
        return Joined(model.start(source))
    return decoders.grown(model.extend(decoders.state, source))


def padded(listeners: Sequence[Listener]) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """The prefixes of sentences of one model, padded on the right, and the mask of real tokens."""
    model = listeners[0].model
    rows = [torch.tensor(one.prefix, device=model.begins.device) for one in listeners]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, True, model.vocabulary.pad)
    lengths = torch.tensor([len(row) for row in rows], device=tokens.device)
    return tokens, torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
