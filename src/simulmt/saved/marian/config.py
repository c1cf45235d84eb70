"""The fields of a Marian folder's JSON files that the Transformer and its subwords depend on.

Each has the default that transformers takes for a missing field; all other fields are ignored.
"""

import re
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    model_validator,
)

from simulmt.errors import UserError
from simulmt.options import Config, Few, parse_json

T = TypeVar("T", bound=BaseModel)
OPTIONS = {
    "dim": "d_model",
    "ffn": "encoder_ffn_dim",
    "heads": "encoder_attention_heads",
    "encoder_layers": "encoder_layers",
    "decoder_layers": "decoder_layers",
    "dropout": "dropout",
    "activation": "activation_function",
}
"""Marian's names for the options of our Transformer that Marian models have, too."""
FIXED = {
    "name": "transformer",
    "norm": "post",
    "encoder": "bidirectional",
    "average_embedding": False,
    "output_bias": True,
}
"""The values that the other options must have."""


class _Fields(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class ModelFields(_Fields):
    """The fields of `config.json` that change a logit."""

    model_type: Literal["marian"] = "marian"
    is_encoder_decoder: Literal[True] = True
    static_position_embeddings: Literal[True] = True
    scale_embedding: Literal[True]
    normalize_before: Literal[False] = False
    normalize_embedding: Literal[False] = False
    add_final_layer_norm: Literal[False] = False
    add_bias_logits: Literal[False] = False
    do_blenderbot_90_layernorm: Literal[False] = False
    share_encoder_decoder_embeddings: Literal[True] = True
    tie_word_embeddings: Literal[True] = True
    quantization_config: None = None
    vocab_size: int = 58101
    d_model: int = 1024
    encoder_layers: int = 12
    decoder_layers: int = 12
    encoder_ffn_dim: int = 4096
    encoder_attention_heads: int = 16
    decoder_attention_heads: int = 16
    num_attention_heads: int | None = None
    activation_function: Literal["relu", "swish", "silu", "gelu"] = "gelu"
    dropout: float = 0.1
    pad_token_id: int = 58100
    decoder_start_token_id: int = 58100
    eos_token_id: int = 0
    num_beams: Few | None = None

    @model_validator(mode="after")
    def _check_heads(self) -> "ModelFields":
        heads = self.encoder_attention_heads
        for name in ("decoder_attention_heads", "num_attention_heads"):
            if getattr(self, name) not in (None, heads):
                raise ValueError(f"{name} must equal encoder_attention_heads ({heads})")
        return self

    def model_options(self) -> Config:
        """Return the options of the Transformer, as in `conf/model/transformer.yaml`."""
        own = {ours: getattr(self, theirs) for ours, theirs in OPTIONS.items()}
        own["activation"] = own["activation"].replace("swish", "silu")
        return FIXED | own


class GenerationFields(_Fields):
    """The fields of `generation_config.json`."""

    num_beams: Few | None = None


def _text_of(piece: object) -> object:
    """Return the text of a piece, which transformers may write as an object."""
    return piece.get("content") if isinstance(piece, dict) else piece


_Piece = Annotated[str, BeforeValidator(_text_of)]


def _one_code(code: str) -> str:
    """Return a code; `mul` for several, as in `cat+oci+spa`."""
    return code if re.fullmatch(r"[\w-]{1,40}", code) else "mul"


_Language = Annotated[str, AfterValidator(_one_code)]


class TokenizerFields(_Fields):
    """The fields of `tokenizer_config.json`."""

    tokenizer_class: Literal["MarianTokenizer"] | None = None
    separate_vocabs: Literal[False] | None = None
    sp_model_kwargs: Annotated[Config, Field(max_length=0)] | None = None
    unk_token: _Piece = "<unk>"
    eos_token: _Piece = "</s>"
    pad_token: _Piece = "<pad>"
    source_lang: _Language | None = None
    target_lang: _Language | None = None


def read_fields(path: Path, kind: type[T]) -> T:
    """Return the fields of a JSON file; UserError names the first that has another value."""
    try:
        return parse_json(TypeAdapter(kind), path.read_bytes())
    except UserError as error:
        raise UserError(f"{path}: {error}; use another copy or model") from None
