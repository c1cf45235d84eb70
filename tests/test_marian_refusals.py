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


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("activation_function", "gelu_new", "activation_function: .*'relu', 'swish'.*'gelu_new'"),
        ("normalize_before", True, "normalize_before: .* False .got True"),
        ("scale_embedding", False, "scale_embedding: .* True .got False"),
        ("model_type", "m2m_100", "model_type: .*'marian'.*'m2m_100'"),
        ("encoder_ffn_dim", 64, "size mismatch"),
        ("decoder_attention_heads", 2, "decoder_attention_heads must .*encoder_attention_heads"),
        ("d_model", 36, "36.*multiple of 8"),
        ("encoder_layers", 3, "Missing key.*encoder.2"),
        ("vocab_size", 10**6, "has 137 pieces, .*config.json says 1,000,000"),
        ("pad_token_id", 3, "eos and pad at .0, 136., but config.json says 137 and .0, 3."),
        ("decoder_start_token_id", 0, "'pad': .*'bos': 0.*pad and bos may be the same"),
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
        ("vocab.json", lambda path: path.write_text('{"a": 1, "b": 1}'), "does not number its 2"),
        ("vocab.json", lambda path: change(path, more=137), "138 pieces, .*config.json says 137"),
        ("target.spm", lambda path: path.write_bytes(spm(["xyz ยฺ zyx"] * 9, 12)),
         "vocab.json lacks .* of the .* pieces of target.spm: .*different models"),
        ("target.spm", lambda path: path.write_bytes(
            spm(["a b c ab"] * 9, 300, byte_fallback=True)), "or has byte pieces"),
        ("source.spm", lambda path: path.write_bytes(
            spm(["a b c ab"] * 9, 9, add_dummy_prefix=False)), "source.spm reads 'A' as"),
        ("tokenizer_config.json", lambda path: change(path, tokenizer_class="T5Tokenizer"),
         "tokenizer_class: .*'MarianTokenizer'.*'T5Tokenizer'"),
        ("tokenizer_config.json", lambda path: change(path, unk_token="?"), "has no '[?]'"),
        ("model.safetensors", lambda path: path.write_bytes(path.read_bytes()[:-9]),
         "not a safetensors"),
        ("model.safetensors", lambda path: path.write_text("version https://git-lfs.github.com"),
         "Git LFS, not files: model.safetensors; run `git lfs pull`"),
        ("generation_config.json", lambda path: path.write_text('{"num_beams": -2}'),
         "num_beams: .* greater than or equal to 1"),
    ],
)  # fmt: skip
def test_files_that_are_corrupt_are_named(folder, name, spoil: Callable[[Path], object], message):
    spoil(folder / name)
    refuse(folder, message)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("config.json", lambda path: path.write_text('{"a":' * 500)),
        ("vocab.json", lambda path: path.write_text("[1]")),
    ],
)
def test_files_that_are_absent_or_odd_are_rejected(folder, name, spoil: Callable[[Path], object]):
    spoil(folder / name)
    reject(folder)


def test_files_that_are_absent_are_named(folder):
    (folder / "vocab.json").unlink()
    (folder / "source.spm").unlink()
    refuse(folder, "^from=.*broken has no source.spm, vocab.json: give the folder of an OPUS-MT")
    (folder / "model.safetensors").unlink()
    absent = "vocab.json, model.safetensors or pytorch_model.bin"
    refuse(folder, f"has no source.spm, {absent}: give the folder .*completes a download")
    refuse(Path("nowhere"), f"^from=nowhere has no config.json, .*, {absent}: give the folder")


def weights(folder: Path) -> dict[str, Any]:
    return safetensors.torch.load_file(folder / "model.safetensors")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda value: value[:, :-1].contiguous(), "size mismatch"),
        (lambda value: value.to(torch.int8), "model.shared.weight .*finite"),
        (lambda value: value * torch.nan, "model.shared.weight .*finite"),
    ],
)
def test_weights_that_are_none_are_named(folder, spoil, message):
    own = weights(folder)
    changed = own | {EMBEDDING: spoil(own[EMBEDDING])}
    safetensors.torch.save_file(changed, folder / "model.safetensors")
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
        {EMBEDDING: torch.zeros(137, 32).to_sparse()},
        [torch.zeros(2)],
    ],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_pickles_are_not_executed(folder, content, zipped):
    (folder / "model.safetensors").unlink()
    file = folder / "pytorch_model.bin"
    torch.save(content, file, _use_new_zipfile_serialization=zipped)
    reject(folder)


def test_a_language_is_chosen(folder):
    refuse(folder, "target=None.*deu, fra", None)
    refuse(folder, "target=xxx.*deu, fra", "xxx")
    trained = marian.read(folder, "deu")
    assert trained.subwords.pieces(trained.subwords.encode_source("")) == [">>deu<<"]
    assert trained.manifest.target_language == "deu"
    alone = write_folder(folder.parent / "alone")
    refuse(alone, "target=fra: the model writes one language; leave target out")


def test_a_folder_of_transformers_is_no_checkpoint(folder):
    with pytest.raises(UserError, match="transformers: run `simulmt import from="):
        checkpoint.load(folder)


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlicense: cc-by-4.0\n---\n", "cc-by-4.0"),
        ("---\r\ntags: x\r\nlicense:  'mit'\r\n---\r\n", "mit"),
        ("---\nlicense: \x1b[2J\n---\n", None),
    ],
)
def test_the_licence_is_that_of_the_card(folder, card, licence):
    (folder / "README.md").write_bytes(card.encode())
    assert marian.licence(folder) == licence
    (folder / "README.md").unlink()
    assert marian.licence(folder) is None
