"""Marian folders that are hostile, broken or of another kind end in one line."""

from __future__ import annotations

import json
import os
import resource
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
GIGABYTES = 5 * 10**9
EMBEDDING = "model.shared.weight"


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    return write_folder(tmp_path_factory.mktemp("marian") / "whole", codes=CODES)


@pytest.fixture
def folder(whole, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(whole, tmp_path / "broken"))


def refuse(folder: Path, message: str, target: str | None = "fra") -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match=message) as refused:
        marian.read(folder, target).build()
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 700
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # a GiB
    assert not (folder.parent / "executed").exists()


def change(path: Path, **entries: Any) -> None:
    content = json.loads(path.read_text()) | entries
    path.write_text(json.dumps({k: v for k, v in content.items() if v is not Ellipsis}))


def test_the_whole_folder_is_read(folder):
    assert marian.read(folder, "fra").build()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("activation_function", "gelu_new", "is 'gelu_new'; take a model with one of relu, swish"),
        ("activation_function", ["relu"], "activation_function of config.json is .'relu'.; take"),
        ("static_position_embeddings", False, "is False; only True is supported"),
        ("normalize_before", True, "normalize_before of config.json is True; only False"),
        ("add_final_layer_norm", True, "add_final_layer_norm of config.json is True"),
        ("normalize_embedding", True, "normalize_embedding of config.json is True"),
        ("scale_embedding", False, "scale_embedding of config.json is False; only True"),
        ("scale_embedding", ..., "scale_embedding of config.json is False; only True"),
        ("scale_embedding", 1, "scale_embedding of config.json is 1; only True"),
        ("share_encoder_decoder_embeddings", False, "is False; only True is supported"),
        ("tie_word_embeddings", False, "tie_word_embeddings of config.json is False"),
        ("model_type", "m2m_100", "model_type of config.json is 'm2m_100'; only 'marian'"),
        ("rotary", True, "rotary of config.json is True; simulmt does not know it: remove it"),
        ("decoder_ffn_dim", 64, "decoder_ffn_dim of config.json is 64; it must be encoder_ffn"),
        ("decoder_ffn_dim", ..., "decoder_ffn_dim of config.json is 4096; it must be encoder_f"),
        ("decoder_attention_heads", 2, "it must be encoder_attention_heads, 4"),
        ("decoder_vocab_size", 9, "decoder_vocab_size of config.json is 9; it must be vocab_s"),
        ("d_model", 36, "d_model of config.json is 36; it must be a multiple of 8"),
        ("d_model", 80_000, r"has the shape .*, by config.json .*80000"),
        ("d_model", 10**400, "it must be a whole number from 1 to 100,000|is not plain"),
        ("encoder_layers", 0, "encoder_layers of config.json is 0; it must be a whole number"),
        ("encoder_layers", 3, "lacks model.encoder.layers.2.* and 14 other parameters"),
        ("encoder_layers", 1, "holds 'model.encoder.layers.1.* which the Transformer of config"),
        ("vocab_size", 10**6, "decoder_vocab_size|has 137 ids, config.json has vocab_size"),
        ("pad_token_id", 10**6, "pad_token_id of config.json is 1000000; it must be an id below"),
        ("pad_token_id", 3, "gives '<pad>' the id 136, config.json 3"),
        ("pad_token_id", None, "pad_token_id of config.json is None; it must be an id"),
        ("eos_token_id", [0], "eos_token_id of config.json is .0.; it must be an id"),
        ("decoder_start_token_id", 0, "only pad and bos may be the same"),
        ("dropout", 2, "dropout of config.json is 2; it must be at least 0 and below 1"),
    ],
)
def test_what_the_transformer_has_not_is_named(folder, field, value, message):
    change(folder / "config.json", **{field: value})
    refuse(folder, message)


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("config.json", lambda path: path.write_text("["), "config.json is absent or damaged"),
        ("config.json", lambda path: path.write_text("[]"), "config.json holds no JSON object"),
        ("config.json", lambda path: path.write_text('{"a":' * 500), "nested|damaged"),
        ("config.json", Path.unlink, "config.json is absent or damaged"),
        ("vocab.json", Path.unlink, "vocab.json cannot be read"),
        ("vocab.json", lambda path: path.write_text("[1]"), "no table of whole numbers by piece"),
        ("vocab.json", lambda path: path.write_text('{"a": true}'), "no table of whole numbers"),
        ("vocab.json", lambda path: path.write_text('{"a": 1, "b": 1}'), "ids of vocab.json are"),
        ("vocab.json", lambda path: path.write_text('{"\\ud800": 0}'), "vocab.json is damaged"),
        ("vocab.json", lambda path: change(path, **{"</s>": 5, "<unk>": 0}), "|".join(
            ("gives '</s>' the id 5", "are not 0 to"))),
        ("vocab.json", lambda path: change(path, more=137), "138 ids, config.json has vocab_size"),
        ("source.spm", lambda path: path.write_bytes(b"\xff" * 9), "source.spm has 9 bytes that a"),
        ("source.spm", Path.unlink, "source.spm cannot be read"),
        ("target.spm", lambda path: path.write_bytes(spm(["xyz ยฺ zyx"] * 9, 12)),
         "vocab.json lacks .* of the .* pieces of target.spm: they are of different models"),
        ("target.spm", lambda path: path.write_bytes(
            spm(["a b c ab"] * 9, 300, byte_fallback=True)), "or has byte pieces"),
        ("source.spm", lambda path: path.write_bytes(
            spm(["a b c ab"] * 9, 9, add_dummy_prefix=False)), "source.spm reads 'A' as"),
        ("tokenizer_config.json", Path.unlink, "tokenizer_config.json is absent"),
        ("tokenizer_config.json", lambda path: change(path, separate_vocabs=True),
         "separate_vocabs of .* is True; only False is supported"),
        ("tokenizer_config.json", lambda path: change(path, tokenizer_class="T5Tokenizer"),
         "tokenizer_class of .* is 'T5Tokenizer'; only 'MarianTokenizer'"),
        ("tokenizer_config.json", lambda path: change(path, sp_model_kwargs={"alpha": 1}),
         "sp_model_kwargs of .* only {} is supported"),
        ("tokenizer_config.json", lambda path: change(path, unk_token="?"), "has no '[?]'"),
        ("tokenizer_config.json", lambda path: change(path, eos_token=3), "eos_token of .* is 3"),
        ("model.safetensors", Path.unlink, "neither model.safetensors nor pytorch_model.bin"),
        ("model.safetensors", lambda path: path.write_bytes(b"\xff" * 99), "no readable weights"),
        ("model.safetensors", lambda path: path.write_bytes(path.read_bytes()[:-9]),
         "no readable weights"),
    ],
)  # fmt: skip
def test_files_that_are_broken_are_named(folder, name, spoil: Callable[[Path], object], message):
    spoil(folder / name)
    refuse(folder, message)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "model.safetensors"])
def test_pipes_and_devices_are_no_files(folder, name):
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    refuse(folder, "no regular file|no readable weights")


def weights(folder: Path) -> dict[str, Any]:
    return safetensors.torch.load_file(folder / "model.safetensors")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda value: value[:, :-1].contiguous(), "has the shape .*, by config.json"),
        (lambda value: value.to(torch.int8), "model.shared.weight is no tensor of floats"),
        (lambda value: value.to(torch.float8_e4m3fn), "is no tensor of floats|no readable"),
        (lambda value: value * torch.nan, "embedding.weight is not finite in float32"),
        (lambda value: value.double() * 1e200, "embedding.weight is not finite in float32"),
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
        ({"lm_head.weight": torch.zeros(137, 32)}, "lm_head.weight is not the shared embedding"),
        ({"model.encoder.layer_norm.weight": torch.zeros(32)}, "layer_norm.weight', which the Tr"),
        ({"model.encoder.embed_positions.weight": torch.rand(9, 32)}, "are learned, or in another"),
        ({"model.encoder.embed_positions.weight": torch.rand(9, 3)}, "no positions of width 32"),
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
    ("content", "message"),
    [
        (Call(os.system, "touch ../executed executed"), "is no readable checkpoint.*; take a mo"),
        ({EMBEDDING: Call(bytearray, GIGABYTES)}, "is no readable checkpoint"),
        ({EMBEDDING: torch.zeros(1).expand(GIGABYTES, 16)}, "is no tensor of floats"),
        ({EMBEDDING: "weight"}, "is no tensor of floats"),
        ({EMBEDDING: torch.zeros(137, 32).to_sparse()}, "is no readable checkpoint"),
        ({3: torch.zeros(2)}, "holds no parameters by name"),
        ([torch.zeros(2)], "holds no parameters by name"),
        ({}, "lacks model.decoder.* and .* other parameters"),
    ],
)
def test_pickles_are_not_executed(folder, content, message):
    (folder / "model.safetensors").unlink()
    torch.save(content, folder / "pytorch_model.bin")
    refuse(folder, message)
    assert not Path("executed").exists()


def test_a_language_is_chosen(folder):
    refuse(folder, "the model writes several languages: choose target=deu, fra", None)
    refuse(folder, "target=xxx: the model writes deu, fra", "xxx")
    trained = marian.read(folder, "deu")
    assert trained.subwords.pieces(trained.subwords.encode_source("")) == [">>deu<<"]
    assert trained.manifest.target_language == "deu"
    alone = write_folder(folder.parent / "alone")
    refuse(alone, "target=fra: the model writes one language: leave target out")


def test_a_folder_of_transformers_is_no_checkpoint(folder):
    with pytest.raises(UserError, match="but one of transformers: give what"):
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
