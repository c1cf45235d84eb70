"""The prefix of a source that has been read, as a model encodes it; several ones in one pass."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from simulmt.attention import Past
from simulmt.attention.state import State
from simulmt.models.joined import Joined, join, structure
from simulmt.models.model import Model

SHORT = 63
"""Subwords up to which sentences are joined whatever their lengths. Longer ones are joined if their
lengths are similar, so that at most half of a batch is padding."""


@dataclass(eq=False)
class EncodedPrefix:
    """What is kept of one sentence between two reads.

    Attributes:
        model: In evaluation mode.
        tokens: The subwords read.
        encoder: The encoder's state after them, if it is causal; None before the first token.
        decoder: The decoder before its next step, which has read them.
        past: What precedes the sentence in a stream, of one row without padding.
    """

    model: Model
    tokens: list[int] = field(default_factory=list)
    encoder: State = None
    decoder: State = None
    past: Past | None = None

    def __post_init__(self) -> None:
        if self.past is not None and self.past.source.shape[1]:  # else of the target alone
            with torch.inference_mode():
                _, self.encoder = self.model.encode_next(self.past.source, None)

    def free(self) -> None:
        """Free the states, once the translation has ended."""
        self.encoder = self.decoder = None


def grouped(prefixes: Sequence[EncodedPrefix], units: Sequence[Sequence[int]]) -> list[list[int]]:
    """The numbers of prefixes of one model, in groups that take one pass.

    Args:
        prefixes: the prefixes.
        units: the next tokens of each; none to draft from it. A draft appends to the history of the
            target without closing up what is padded, so histories of a group are of one length.
    """
    groups = defaultdict[Hashable, list[int]](list)
    for number, (one, unit) in enumerate(zip(prefixes, units, strict=True)):
        size = max(len(one.tokens), SHORT).bit_length()
        begins = one.past is not None and one.decoder is None
        alone = number if begins or not one.model.joins else None
        behind = one.past.target.shape[1] if one.past is not None and not unit else 0
        states = structure(one.encoder), structure(one.decoder)
        groups[len(unit), size, states, alone, behind].append(number)
    return [*groups.values()]


def encode_units(prefixes: Sequence[EncodedPrefix], units: Sequence[Sequence[int]]) -> Joined:
    """Encode the next tokens of a group of prefixes.

    Returns:
        Their decoders, which have read these tokens; the caller returns each to its prefix.
    """
    model = prefixes[0].model
    tokens = torch.tensor([[*unit] for unit in units], device=model.begins.device)
    encoders = join([one.encoder for one in prefixes])
    decoders = join([one.decoder for one in prefixes])
    source, encoded = model.encode_next(tokens, encoders.state)
    after = encoders.grown(encoded).alone()
    for one, unit, own in zip(prefixes, units, after, strict=True):
        one.tokens += unit
        one.encoder = own
    if decoders.state is None:
        return Joined(model.start(source._replace(past=prefixes[0].past)))
    return decoders.grown(model.extend(decoders.state, source))


def padded(prefixes: Sequence[EncodedPrefix]) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """The tokens of prefixes of one model, padded on the right, and the mask of real tokens."""
    model = prefixes[0].model
    rows = [torch.tensor(one.tokens, device=model.begins.device) for one in prefixes]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, True, model.vocabulary.pad)
    lengths = torch.tensor([len(row) for row in rows], device=tokens.device)
    return tokens, torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
