"""Marian folders that are hostile, corrupt or of another kind are rejected."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="transformers, which writes the models, is absent")

import safetensors.torch

from marian_models import CODES, spm, write_folder
from simulmt.errors import UserError
from simulmt.saved import checkpoint
from simulmt.saved.marian import folder as marian

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
REJECTED = (AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError, UserError)
EMBEDDING = "model.shared.weight"


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    return write_folder(tmp_path_factory.mktemp("marian") / "whole", codes=CODES)


@pytest.fixture
def folder(whole, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(whole, tmp_path / "broken"))


def refuse(folder: Path, message: str, target: str | None = "fra") -> None:
    """A user may meet these: one line that names what is wrong."""
    with pytest.raises(UserError, match=message) as refused:
        marian.read(folder, target).build()
    assert "\n" not in str(refused.value)


def reject(folder: Path) -> None:
    """For these the library's own error stands."""
    with pytest.raises(REJECTED):
        marian.read(folder, "fra").build()
    assert not Path("executed").exists()


def change(path: Path, **entries: Any) -> None:
    content = json.loads(path.read_text()) | entries
    path.write_text(json.dumps({k: v for k, v in content.items() if v is not Ellipsis}))


def test_the_whole_folder_is_read(folder):
    assert marian.read(folder, "fra").build()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("activation_function", "gelu_new", "activation_function: .*'relu', 'swish'.*'gelu_new'"),
        ("activation_function", ["relu"], "activation_function: .*'relu'"),
        ("static_position_embeddings", False, "static_position_embeddings: .* True .got False"),
        ("normalize_before", True, "normalize_before: .* False .got True"),
        ("add_final_layer_norm", True, "add_final_layer_norm: .* False .got True"),
        ("normalize_embedding", True, "normalize_embedding: .* False .got True"),
        ("scale_embedding", False, "scale_embedding: .* True .got False"),
        ("scale_embedding", ..., "scale_embedding: Field required"),
        ("share_encoder_decoder_embeddings", False, "share_encoder_decoder_embeddings: "),
        ("tie_word_embeddings", False, "tie_word_embeddings: "),
        ("quantization_config", {"bits": 8}, "quantization_config: "),
        ("model_type", "m2m_100", "model_type: .*'marian'.*'m2m_100'"),
        ("encoder_ffn_dim", 64, "not those of the model .*size mismatch"),
        ("encoder_ffn_dim", ..., "not those of the model .*size mismatch"),
        (
            "decoder_attention_heads",
            2,
            "decoder_attention_heads must be encoder_attention",
        ),
        ("decoder_attention_heads", ..., "decoder_attention_heads must be enc"),
        ("num_attention_heads", 2, "num_attention_heads must be encoder_attention_heads, 4"),
        ("d_model", 36, "36.*multiple of 8"),
        ("d_model", 80_000, "not those of the model .*size mismatch"),
        ("d_model", 10**400, "d_model: .* integer|model.dim is 10+"),
        ("encoder_layers", 0, "encoder_layers is 0; it must be"),
        ("encoder_layers", 3, "not those of the model .*Missing key.*encoder.2"),
        ("encoder_layers", 1, "not those of the model .*Unexpected key.*encoder.layers.1"),
        ("vocab_size", 10**6, "has 137 pieces, .*config.json says 1,000,000"),
        ("pad_token_id", 10**6, "vocab.json has .*config.json says .*1000000"),
        ("pad_token_id", 3, "eos and pad are .0, 136.; config.json says 137 and .0, 3."),
        ("pad_token_id", None, "pad_token_id: "),
        ("eos_token_id", [0], "eos_token_id: "),
        ("decoder_start_token_id", 0, "only pad and bos may be the same"),
        ("decoder_start_token_id", 10**6, "are not all ids of vocab.json"),
        ("dropout", 2, "model.dropout is 2"),
    ],
)
def test_what_the_transformer_has_not_is_named(folder, field, value, message):
    change(folder / "config.json", **{field: value})
    refuse(folder, message)


def test_fields_that_change_no_logit_are_ignored(folder):
    change(folder / "config.json", rotary=True, temperature=3.5, id2label=None)
    assert marian.read(folder, "fra").build()


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("config.json", lambda path: path.write_text("["), "config.json: .*Invalid JSON"),
        ("config.json", lambda path: path.write_text("[]"), "config.json: .*object"),
        ("vocab.json", lambda path: path.write_text('{"a": 1, "b": 1}'), "does not number its 2"),
        ("vocab.json", lambda path: change(path, **{"</s>": 5, "<unk>": 0}), "does not number"),
        ("vocab.json", lambda path: change(path, more=137), "138 pieces, .*config.json says 137"),
        ("source.spm", lambda path: path.write_bytes(b"\xff" * 9), "source.spm has 9 bytes that a"),
        ("target.spm", lambda path: path.write_bytes(spm(["xyz ยฺ zyx"] * 9, 12)),
         "vocab.json lacks .* of the .* pieces of target.spm: they are of different models"),
        ("target.spm", lambda path: path.write_bytes(
            spm(["a b c ab"] * 9, 300, byte_fallback=True)), "or has byte pieces"),
        ("source.spm", lambda path: path.write_bytes(
            spm(["a b c ab"] * 9, 9, add_dummy_prefix=False)), "source.spm reads 'A' as"),
        ("tokenizer_config.json", lambda path: change(path, separate_vocabs=True),
         "separate_vocabs: .*False .got True"),
        ("tokenizer_config.json", lambda path: change(path, tokenizer_class="T5Tokenizer"),
         "tokenizer_class: .*'MarianTokenizer'.*'T5Tokenizer'"),
        ("tokenizer_config.json", lambda path: change(path, sp_model_kwargs={"alpha": 1}),
         "sp_model_kwargs"),
        ("tokenizer_config.json", lambda path: change(path, unk_token="?"), "has no '[?]'"),
        ("tokenizer_config.json", lambda path: change(path, eos_token=3), "eos_token: .*got 3"),
        ("tokenizer_config.json", lambda path: change(path, source_lang="../de"), "source_lang: "),
        ("model.safetensors", lambda path: path.write_bytes(b"\xff" * 99), "not a safetensors"),
        ("model.safetensors", lambda path: path.write_bytes(path.read_bytes()[:-9]),
         "not a safetensors"),
    ],
)  # fmt: skip
def test_files_that_are_corrupt_are_named(folder, name, spoil: Callable[[Path], object], message):
    spoil(folder / name)
    refuse(folder, message)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("config.json", lambda path: path.write_text('{"a":' * 500)),
        ("config.json", Path.unlink),
        ("vocab.json", Path.unlink),
        ("vocab.json", lambda path: path.write_text("[1]")),
        ("source.spm", Path.unlink),
        ("tokenizer_config.json", Path.unlink),
        ("model.safetensors", Path.unlink),
    ],
)
def test_files_that_are_absent_or_odd_are_rejected(folder, name, spoil: Callable[[Path], object]):
    spoil(folder / name)
    reject(folder)


def weights(folder: Path) -> dict[str, Any]:
    return safetensors.torch.load_file(folder / "model.safetensors")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda value: value[:, :-1].contiguous(), "not those of the model .*size mismatch"),
        (lambda value: value.to(torch.int8), "model.shared.weight is not finite, or not of floats"),
        (lambda value: value * torch.nan, "model.shared.weight is not finite"),
        (lambda value: value.double() * 1e200, "model.shared.weight is not finite"),
    ],
)
def test_weights_that_are_none_are_named(folder, spoil, message):
    own = weights(folder)
    changed = own | {EMBEDDING: spoil(own[EMBEDDING])}
    safetensors.torch.save_file(changed, folder / "model.safetensors")
    refuse(folder, message)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"lm_head.weight": torch.zeros(137, 32)}, "lm_head.weight are not one embedding"),
        ({"model.encoder.layer_norm.weight": torch.zeros(32)}, "Unexpected key.*layer_norm.weight"),
        ({"model.encoder.embed_positions.weight": torch.rand(9, 32)}, "are learned, or in another"),
        ({"model.encoder.embed_positions.weight": torch.rand(9, 3)}, "are learned, or in another"),
    ],
)
def test_parameters_of_other_models_are_named(folder, entry, message):
    safetensors.torch.save_file(weights(folder) | entry, folder / "model.safetensors")
    refuse(folder, message)


class Call:
    """Pickled, it stands for what a function returns."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize(
    "content",
    [
        Call(os.system, "touch executed"),
        {EMBEDDING: Call(os.system, "touch executed")},
        {EMBEDDING: "weight"},
        {EMBEDDING: torch.zeros(137, 32).to_sparse()},
        {3: torch.zeros(2)},
        [torch.zeros(2)],
        {},
    ],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_pickles_are_not_executed(folder, content, zipped):
    (folder / "model.safetensors").unlink()
    file = folder / "pytorch_model.bin"
    torch.save(content, file, _use_new_zipfile_serialization=zipped)
    reject(folder)


def test_a_language_is_chosen(folder):
    refuse(folder, "target=None, and the model writes deu, fra", None)
    refuse(folder, "target=xxx, and the model writes deu, fra", "xxx")
    trained = marian.read(folder, "deu")
    assert trained.subwords.pieces(trained.subwords.encode_source("")) == [">>deu<<"]
    assert trained.manifest.target_language == "deu"
    alone = write_folder(folder.parent / "alone")
    refuse(alone, "target=fra, and the model writes one language; leave target out")


def test_a_folder_of_transformers_is_no_checkpoint(folder):
    with pytest.raises(UserError, match="holds a model of transformers: give what"):
        checkpoint.load(folder)


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlicense: cc-by-4.0\n---\n", "cc-by-4.0"),
        ("---\r\ntags: x\r\nlicense:  'mit'\r\n---\r\n", "mit"),
        ("# license: mit", None),
        ("---\nlicense: \x1b[2J\n---\n", None),
    ],
)
def test_the_licence_is_that_of_the_card(folder, card, licence):
    (folder / "README.md").write_bytes(card.encode())
    assert marian.licence(folder) == licence
    (folder / "README.md").unlink()
    assert marian.licence(folder) is None
