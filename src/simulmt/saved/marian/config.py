"""The fields of a Marian model's `config.json`: what they must be, and which options they are."""

from collections.abc import Mapping
from typing import Any

from simulmt.errors import UserError
from simulmt.options import Config

MODEL_TYPE = "marian"
REQUIRED: Mapping[str, object] = {
    "model_type": MODEL_TYPE,
    "is_encoder_decoder": True,
    "static_position_embeddings": True,
    "scale_embedding": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "add_bias_logits": False,
    "do_blenderbot_90_layernorm": False,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_encoder_decoder": False,
    "quantization_config": None,
}
"""The only value of each field that the Transformer here has."""
_ASSUMED: Mapping[str, object] = {"scale_embedding": False}
"""What transformers takes for a field that is missing, where it is another value."""
ACTIVATIONS: Mapping[str, str] = {"relu": "relu", "swish": "silu", "silu": "silu", "gelu": "gelu"}
"""The activations here, by Marian's names."""
_SIZES: Mapping[str, int] = {
    "vocab_size": 58101,
    "d_model": 1024,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
}
"""Sizes, with what transformers takes if they are missing."""
_SAME: Mapping[str, str] = {
    "decoder_vocab_size": "vocab_size",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "encoder_attention_heads",
    "hidden_size": "d_model",
    "decoder_ffn_dim": "encoder_ffn_dim",
    "decoder_attention_heads": "encoder_attention_heads",
}
"""Fields that must be equal to others, or missing."""
_IDS: Mapping[str, int] = {
    "pad_token_id": 58100,
    "decoder_start_token_id": 58100,
    "eos_token_id": 0,
}
_READ = ("activation_function", "dropout", "num_beams", *_SIZES, *_SAME, *_IDS)
_ONLY_TRAINING = (
    "activation_dropout attention_dropout classif_dropout classifier_dropout encoder_layerdrop "
    "decoder_layerdrop init_std gradient_checkpointing label_smoothing"
)
_ONLY_GENERATION = (
    "bad_words_ids forced_eos_token_id forced_bos_token_id bos_token_id max_length min_length "
    "length_penalty early_stopping use_cache do_sample temperature top_k top_p typical_p "
    "repetition_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size num_beam_groups "
    "diversity_penalty num_return_sequences max_position_embeddings extra_pos_embeddings "
    "force_bos_token_to_be_generated suppress_tokens begin_suppress_tokens sep_token_id prefix "
    "exponential_decay_length_penalty return_dict_in_generate remove_invalid_values"
)
_ONLY_NAMES = (
    "architectures transformers_version torch_dtype dtype _name_or_path name_or_path torchscript "
    "_num_labels num_labels id2label label2id problem_type task_specific_params return_dict "
    "finetuning_task tokenizer_class output_attentions output_hidden_states output_past "
    "tf_legacy_loss use_bfloat16 pruned_heads chunk_size_feed_forward attn_implementation "
    "cross_attention_hidden_size _attn_implementation _attn_implementation_autoset"
)
IGNORED = frozenset(f"{_ONLY_TRAINING} {_ONLY_GENERATION} {_ONLY_NAMES}".split())
"""Fields that change no logit of a trained model."""


def check_fields(config: Config) -> None:
    """Refuse a configuration with a field of another value, or a field of another kind of model.

    Raises:
        UserError: names the field, its value and the value that it must have.
    """
    for name, value in REQUIRED.items():
        own = config.get(name, _ASSUMED.get(name, value))
        if own != value or type(own) is not type(value):
            raise _refused(name, own, f"only {value!r} is supported: take another model")
    unknown = sorted({*config} - {*REQUIRED, *_READ} - IGNORED)
    if unknown:
        name = unknown[0]
        raise _refused(
            name, config[name], "simulmt does not know it: remove it if it changes no logit"
        )
    for name, other in _SAME.items():
        value, same = (config.get(key, _SIZES.get(key)) for key in (name, other))
        if (name in config or name in _SIZES) and value != same:
            raise _refused(name, value, f"it must be {other}, {same}: take another model")


def model_options(config: Config) -> dict[str, Any]:
    """Return the options of the Transformer, as in `conf/model/transformer.yaml`.

    Raises:
        UserError: as for `check_fields`; or a size or an activation that there is not.
    """
    check_fields(config)
    sizes = {name: _size(config, name) for name in _SIZES}
    dim, heads = sizes["d_model"], sizes["encoder_attention_heads"]
    if dim % (2 * heads):
        raise _refused("d_model", dim, f"it must be a multiple of {2 * heads}, twice the heads")
    activation = config.get("activation_function", "gelu")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise _refused("activation_function", activation, f"take a model with one of {known}")
    dropout = config.get("dropout", 0.1)
    if type(dropout) not in (int, float) or not 0 <= dropout < 1:
        raise _refused("dropout", dropout, "it must be at least 0 and below 1: correct it")
    return {
        "name": "transformer",
        "dim": dim,
        "ffn": sizes["encoder_ffn_dim"],
        "heads": heads,
        "encoder_layers": sizes["encoder_layers"],
        "decoder_layers": sizes["decoder_layers"],
        "dropout": dropout,
        "norm": "post",
        "encoder": "bidirectional",
        "average_embedding": False,
        "activation": ACTIVATIONS[activation],
        "output_bias": True,
    }


def special_ids(config: Config) -> dict[str, int]:
    """Return the ids of pad, bos and eos, by their names in `Vocabulary`.

    Raises:
        UserError: one of them is no id.
    """
    size, ids = _size(config, "vocab_size"), dict[str, int]()
    for name, usual in _IDS.items():
        value = config.get(name, usual)
        if type(value) is not int or not 0 <= value < size:
            raise _refused(name, value, f"it must be an id below vocab_size, {size}")
        ids[name] = value
    return dict(zip(("pad", "bos", "eos"), ids.values(), strict=True))


def beam(config: Config) -> int | None:
    """Return the usual beam of a model, from 1 to 100; None if the fields do not say."""
    value = config.get("num_beams")
    return value if type(value) is int and 1 <= value <= 100 else None


def _size(config: Config, name: str) -> int:
    value = config.get(name, _SIZES[name])
    most = 1_000_000 if name == "vocab_size" else 1_000 if "layers" in name else 100_000
    if type(value) is not int or not 1 <= value <= most:
        raise _refused(name, value, f"it must be a whole number from 1 to {most:,}")
    return value


def _refused(name: str, value: object, why: str) -> UserError:
    return UserError(f"{name} of config.json is {value!r:.80}; {why}")
