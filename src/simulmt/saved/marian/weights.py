"""The names of a Transformer's parameters, here and in Marian's format."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from simulmt.errors import UserError
from simulmt.models.embedding import sinusoids
from simulmt.options import Config
from simulmt.saved.trained import check_finite

EMBEDDING, BIAS = "model.shared.weight", "final_logits_bias"
_COPIES = (
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
"""Further names of the embedding."""
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
_ATTENTION = {"q_proj": "score.query", "k_proj": "score.key", "v_proj": "value",
              "out_proj": "output"}  # fmt: skip
_LAYER = {
    "self_attn_layer_norm": "around_self.norm",
    "fc1": "feed_forward.widen",
    "fc2": "feed_forward.narrow",
    "final_layer_norm": "around_feed_forward.norm",
    **{f"self_attn.{theirs}": f"self_attention.{ours}" for theirs, ours in _ATTENTION.items()},
}
_OF_DECODER = {
    "encoder_attn_layer_norm": "around_source.norm",
    **{f"encoder_attn.{theirs}": f"source_attention.{ours}" for theirs, ours in _ATTENTION.items()},
}


def names(options: Config) -> dict[str, str]:
    """Return the name here of each of Marian's parameters.

    The bias of a key has no name here: it shifts all energies of a query by the same amount, which
    does not change their softmax.

    Args:
        options: those of the Transformer.
    """
    layers = {
        f"model.{side}.layers.{n}.{theirs}.{kind}": f"{side}.{n}.{ours}.{kind}"
        for side, parts in (("encoder", _LAYER), ("decoder", _LAYER | _OF_DECODER))
        for n in range(options[f"{side}_layers"])
        for theirs, ours in parts.items()
        for kind in ("weight", "bias")
        if (kind, theirs.rpartition(".")[2]) != ("bias", "k_proj")
    }
    return {EMBEDDING: "embedding.weight", BIAS: "output_bias", **layers}


def from_marian(path: Path, weights: Mapping[str, Tensor], options: Config) -> dict[str, Tensor]:
    """Return the parameters by their names here, in float32; unknown ones keep their names.

    Args:
        path: the file of the weights, for messages.
        weights: the parameters by Marian's names.
        options: those of the Transformer.

    Raises:
        UserError: a parameter is not of finite floats, the embedding is not shared, or positions
            are not sinusoids.
    """
    check_finite(path, weights)
    own = {name: value.float() for name, value in weights.items()}
    check_finite(path, own)  # a float64 may exceed float32
    copies = [own.pop(name) for name in (EMBEDDING, *_COPIES) if name in own]
    if not copies or not all(torch.equal(copy, copies[0]) for copy in copies):
        raise UserError(
            f"{path}: {EMBEDDING} and {', '.join(_COPIES)} are not the same matrix: use another "
            "model"
        )
    for name in _POSITIONS:
        if name in own and not _are_sinusoids(own.pop(name), options["dim"]):
            raise UserError(
                f"{path}: {name} are learned, or are not sines followed by cosines: use a "
                "model with static_position_embeddings"
            )
    for name in _key_biases(options):
        own.pop(name, None)
    bias = own.get(BIAS, copies[0].new_zeros(1, len(copies[0])))[0]
    ours = names(options)
    found = own | {EMBEDDING: copies[0], BIAS: bias}
    return {ours.get(name, name): value for name, value in found.items()}


def to_marian(weights: Mapping[str, Tensor], options: Config) -> dict[str, Tensor]:
    """Return the parameters by Marian's names; biases that simulmt lacks are zero."""
    embedding = weights["embedding.weight"]
    zeros = {theirs: embedding.new_zeros(options["dim"]) for theirs in _key_biases(options)}
    bias = weights.get("output_bias", embedding.new_zeros(len(embedding)))
    rest = {theirs: weights[ours] for theirs, ours in names(options).items() if theirs != BIAS}
    named = {**rest, **zeros, BIAS: bias[None]}
    return {name: value.contiguous().clone() for name, value in named.items()}


def _key_biases(options: Config) -> Iterator[str]:
    """Yield the names of the biases of keys."""
    for theirs in names(options):
        if theirs.endswith("k_proj.weight"):
            yield theirs.removesuffix("weight") + "bias"


def _are_sinusoids(positions: Tensor, dim: int) -> bool:
    """Return True if positions are the fixed ones of simulmt's Transformer."""
    fixed = sinusoids(torch.zeros(1, 1, dtype=torch.long), len(positions), dim)[0]
    return positions.shape == fixed.shape and torch.allclose(positions, fixed, atol=5e-3)
