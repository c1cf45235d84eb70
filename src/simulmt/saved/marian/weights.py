"""The names of a Transformer's parameters, here and in Marian's format."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from simulmt.errors import UserError
from simulmt.models.embedding import sinusoids
from simulmt.options import Config
from simulmt.saved.archive import is_whole

EMBEDDING, BIAS = "model.shared.weight", "final_logits_bias"
_COPIES = (
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
"""Further names of the embedding."""
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
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

    The bias of a key has no name here: it shifts all energies of a query alike, which a softmax
    does not see.

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


def from_marian(
    path: Path, weights: Mapping[str, object], options: Config, shapes: Mapping[str, torch.Size]
) -> dict[str, Tensor]:
    """Return the parameters of the Transformer, in float32.

    Args:
        path: the file of the weights, for messages.
        weights: the parameters by Marian's names, whatever the file holds.
        options: those of the Transformer.
        shapes: of its parameters, by their names here.

    Raises:
        UserError: a parameter is missing, of another shape, not finite, no float, or unknown.
    """
    translated, own = names(options), dict(weights)
    copies = [name for name in (EMBEDDING, *_COPIES) if name in own]
    if copies:
        own.setdefault(EMBEDDING, own[copies[0]])
    size, dim = shapes["embedding.weight"]
    expected = {theirs: shapes[ours] for theirs, ours in translated.items()}
    expected |= {BIAS: torch.Size((1, size)), **dict.fromkeys(copies, torch.Size((size, dim)))}
    expected |= {theirs: torch.Size((dim,)) for theirs in _key_biases(options)}
    raw = {
        theirs: _checked(path, theirs, own[theirs], shape)
        for theirs, shape in expected.items()
        if theirs in own
    }
    _check_names(path, own, expected)
    for name in {*copies} - {EMBEDDING}:
        if not torch.equal(raw[name], raw[EMBEDDING]):
            raise UserError(f"{path}: {name} is not the shared embedding: take another model")
    for name in _POSITIONS:
        if name in own:
            _check_positions(path, name, own[name], dim)
    found = {ours: raw[theirs] for theirs, ours in translated.items() if theirs != BIAS}
    found["output_bias"] = raw.get(BIAS, torch.zeros(1, size))[0]
    return {name: _finite(path, name, value.float()) for name, value in found.items()}


def to_marian(weights: Mapping[str, Tensor], options: Config) -> dict[str, Tensor]:
    """Return the parameters by Marian's names; biases that there are not here are zero."""
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


def _check_names(path: Path, own: Mapping[str, object], expected: Mapping[str, torch.Size]) -> None:
    """Refuse parameters that are missing, but for biases, or unknown."""
    biases = {BIAS, *(name for name in expected if name.endswith("k_proj.bias"))}
    if missing := sorted({*expected} - {*own} - biases):
        raise UserError(
            f"{path} lacks {missing[0]}, which config.json describes, and {len(missing) - 1} other "
            "parameters: take all files from one model"
        )
    if unknown := sorted({*own} - {*expected, *_POSITIONS}):
        raise UserError(
            f"{path} holds {unknown[0]!r:.80}, which the Transformer of config.json has not: take "
            "all files from one model"
        )


def _checked(path: Path, name: str, value: object, shape: torch.Size) -> Tensor:
    """Return a parameter, which is a tensor of floats of this shape."""
    if not isinstance(value, Tensor) or not is_whole(value) or value.dtype not in _FLOATS:
        raise UserError(f"{path}: {name} is no tensor of floats: take another copy of the model")
    if value.shape != shape:
        raise UserError(
            f"{path}: {name} has the shape {tuple(value.shape)}, by config.json {tuple(shape)}: "
            "take all files from one model"
        )
    return value


def _finite(path: Path, name: str, value: Tensor) -> Tensor:
    """Return a parameter, which is finite."""
    if not value.isfinite().all():
        raise UserError(f"{path}: {name} is not finite in float32: take another copy of the model")
    return value


def _check_positions(path: Path, name: str, value: object, dim: int) -> None:
    """Refuse positions that are learned."""
    if not isinstance(value, Tensor) or value.ndim != 2 or value.shape[1] != dim:
        raise UserError(f"{path}: {name} are no positions of width {dim}: take another model")
    own = _checked(path, name, value, value.shape).float()
    fixed = sinusoids(torch.zeros(1, 1, dtype=torch.long), len(own), dim)[0]
    if not torch.allclose(own, fixed, atol=5e-3):
        raise UserError(
            f"{path}: {name} are learned, or in another order than sines, then cosines: take a "
            "model with static_position_embeddings"
        )
