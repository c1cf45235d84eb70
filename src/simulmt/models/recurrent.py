"""What the recurrent models have in common."""

from __future__ import annotations

from simulmt.attention import Usual
from simulmt.attention.scores import Additive, NormalisedAdditive
from simulmt.errors import UserError

RECURRENT = Usual(NormalisedAdditive, Additive, many_heads=False, projected=False)
"""Additive energies, one head unless the mechanism is multihead, contexts that are sums of states
(MILk, Arivazhagan et al. 2019; Raffel et al. 2017)."""


def check_sizes(
    dim: int, heads: int, encoder_layers: int, decoder_layers: int, dropout: float
) -> None:
    """Refuse sizes that no model has.

    Raises:
        UserError: naming the value, the limit and the remedy.
    """
    if heads < 1 or dim < 1 or dim % heads:
        raise UserError(
            f"model.dim is {dim}, model.heads {heads}; dim must be a positive multiple of heads"
        )
    if min(encoder_layers, decoder_layers) < 1:
        raise UserError(
            f"model.encoder_layers is {encoder_layers}, model.decoder_layers {decoder_layers}; "
            "each must be at least 1"
        )
    if not 0 <= dropout < 1:
        raise UserError(f"model.dropout is {dropout}; it lies in [0, 1)")
