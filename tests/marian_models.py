"""Folders in Marian's format with random weights, as transformers writes them."""

from __future__ import annotations

import io
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

pytest.importorskip(
    "transformers", reason="transformers, which these tests compare with, is absent"
)
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

from simulmt.data.verbfinal import verbfinal

SPLIT = verbfinal(1, 300, 9, 11).splits["train"]
AWKWARD = [
    "Der Mann schläft .",
    "½ Ⅷ ﬁ ´ a´b don´t …",
    "zero\u200bwidth \u200b soft\u00adhyphen \ufeffmark",
    "Ωmega 漢字 😀 x😀y",
    "</s> <unk> <pad> <s> >>fra<< ▁ ⁇",
    "",
    "e\u0301 ü u\u0308",
    "a" * 300,
]
CODES = (">>fra<<", ">>deu<<")


def spm(lines: list[str], size: int, **options: Any) -> bytes:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=written,
        vocab_size=size,
        minloglevel=3,
        num_threads=1,
        hard_vocab_limit=False,
        **options,
    )
    return written.getvalue()


def pieces_of(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(number) for number in range(3, processor.vocab_size())]


UNSPACED = ["".join(line.split()) for line in SPLIT.targets]
"""As if the target language were written without spaces."""
_SOURCE, _TARGET = spm([*SPLIT.sources], 90), spm([*SPLIT.targets], 80, model_type="bpe")
_UNSPACED = spm(UNSPACED, 120)


def vocabulary(
    pad: int | None = None, codes: tuple[str, ...] = (), target: bytes = _TARGET
) -> dict[str, int]:
    """EOS first, PAD last or where `pad` says, and the pieces of both models between them."""
    both = sorted({*pieces_of(_SOURCE), *pieces_of(target)})
    pieces = ["</s>", "<unk>", *codes, *both]
    pieces.insert(len(pieces) if pad is None else pad, "<pad>")
    return {piece: number for number, piece in enumerate(pieces)}


def write_folder(
    folder: Path,
    *,
    pad: int | None = None,
    codes: tuple[str, ...] = (),
    half: bool = False,
    pickled: bool = False,
    updates: int = 0,
    unspaced: bool = False,
    **changes: Any,
) -> Path:
    """A folder of a random model, or of one that was trained a little and ends its sentences."""
    ids = vocabulary(pad, codes, _UNSPACED if unspaced else _TARGET)
    sizes = {"d_model": 32, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "encoder_layers": 2,
             "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
             "max_position_embeddings": 256, "vocab_size": len(ids), "scale_embedding": True,
             "activation_function": "swish", "pad_token_id": ids["<pad>"],
             "decoder_start_token_id": ids["<pad>"], "eos_token_id": 0, "forced_eos_token_id": 0,
             "static_position_embeddings": True, "normalize_before": False}  # fmt: skip
    torch.manual_seed(2)
    model = MarianMTModel(MarianConfig(**{"init_std": 0.1} | sizes | changes)).eval()
    if not updates:
        randomise(model, ids["<pad>"])
    model.save_pretrained(folder)
    write_tokenizer(folder, ids, unspaced)
    if updates:
        targets = UNSPACED if unspaced else [*SPLIT.targets]
        train(model, MarianTokenizer.from_pretrained(folder), updates, targets)
    model = model.half() if half else model
    model.save_pretrained(folder)
    if pickled:
        positions = "embed_positions" if half else "none"  # of halves, they would be rounded
        kept = {name: v for name, v in model.state_dict().items() if positions not in name}
        torch.save(kept, folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    return folder


def randomise(model: MarianMTModel, pad: int) -> None:
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "embed_positions" not in name:
                value.copy_(torch.randn_like(value) * (0.3 if value.ndim > 1 else 0.1))
                if "layer_norm.weight" in name:
                    value.add_(1)
        model.final_logits_bias.normal_().mul_(0.3)
        model.model.shared.weight[pad] = model.final_logits_bias[0, pad] = 0


def train(
    model: MarianMTModel, tokenizer: MarianTokenizer, updates: int, targets: list[str]
) -> None:
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for update in range(updates):
        rows = slice(32 * (update % 9), 32 * (update % 9) + 32)
        given = tokenizer(
            SPLIT.sources[rows], text_target=targets[rows], padding=True, return_tensors="pt"
        )
        labels = given["labels"]
        given["labels"] = labels.masked_fill(labels == tokenizer.pad_token_id, -100)
        model(**given).loss.backward()
        optimiser.step()
        optimiser.zero_grad()


def write_tokenizer(folder: Path, ids: dict[str, int], unspaced: bool = False) -> None:
    (folder / "source.spm").write_bytes(_SOURCE)
    (folder / "target.spm").write_bytes(_UNSPACED if unspaced else _TARGET)
    (folder / "vocab.json").write_text(json.dumps(ids))
    described = {"source_lang": "de", "target_lang": "zh" if unspaced else "en",
                 "tokenizer_class": "MarianTokenizer"}  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(described))
    (folder / "README.md").write_text("---\nlanguage: de\nlicense: apache-2.0\n---\n# A model\n")


def theirs(folder: Path) -> tuple[MarianMTModel, MarianTokenizer]:
    """What transformers makes of a folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval()
        return model, MarianTokenizer.from_pretrained(folder)
