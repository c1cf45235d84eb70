"""An offline Transformer as a folder of transformers, and back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="transformers, which reads the models, is absent")

import safetensors.torch

from marian_models import CODES, SPLIT, theirs, write_folder
from simulmt.data.encoded import EncodedSplit
from simulmt.data.manifest import Manifest, SubwordsRecord
from simulmt.data.subwords import Subwords
from simulmt.data.text import NORMALISATION, normalise
from simulmt.decoding.greedy import greedy
from simulmt.errors import UserError
from simulmt.laws.small import vary
from simulmt.parts.builders import build_mechanism, build_model
from simulmt.parts.configuration import Setup
from simulmt.programs.export import export
from simulmt.saved import exported
from simulmt.saved.marian import export as out
from simulmt.saved.marian import folder as marian
from simulmt.saved.trained import Trained
from small_runs import configuration
from zoo import options

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
MODEL = {
    "name": "transformer", "dim": 32, "ffn": 48, "heads": 4, "encoder_layers": 2,
    "decoder_layers": 1, "dropout": 0.1, "norm": "post", "encoder": "bidirectional",
}  # fmt: skip
MODELS = {
    "relu": {},
    "silu": {"activation": "silu", "encoder": "auto"},
    "gelu": {"activation": "gelu", "output_bias": True},
}


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    return Subwords.train(SPLIT.sample(), 150)


def made(subwords: Subwords, mechanism: str = "soft", **changes: Any) -> Trained:
    chosen = {"mechanism": options(mechanism), "model": MODEL | changes,
              "data": {"name": "a", "corpus": "text", "batch_tokens": 300},
              "decoding": {"beam": None, "length_penalty": 0.6}}  # fmt: skip
    kept = SubwordsRecord(subwords.digest, len(subwords))
    described = Manifest("a", "de", "en", NORMALISATION, kept, {})
    torch.manual_seed(3)
    model = build_model(chosen["model"], build_mechanism(chosen["mechanism"]), subwords.vocabulary)
    vary(model)
    weights = {name: value.detach() for name, value in model.state_dict().items()}
    if "output_bias" in weights:
        weights["output_bias"].normal_()
    return Trained(Path("here"), chosen, Setup.of(chosen), described, {}, subwords, weights)


def logits(trained: Trained) -> torch.Tensor:
    rows = EncodedSplit.encode(SPLIT, trained.subwords).batch(range(9))
    with torch.no_grad():
        return trained.build()(rows.source, rows.source_mask, rows.target_input).logits


@pytest.mark.parametrize("name", MODELS)
def test_transformers_computes_and_writes_the_same(name, subwords, tmp_path):
    trained = made(subwords, **MODELS[name])
    out.write(trained, tmp_path / "folder")
    model, tokenizer = theirs(tmp_path / "folder")
    rows, own = EncodedSplit.encode(SPLIT, subwords).batch(range(9)), trained.build()
    given = {"input_ids": rows.source, "attention_mask": rows.source_mask.long()}
    with torch.no_grad():
        other = model(**given, decoder_input_ids=rows.target_input).logits
    keep = rows.target_mask
    torch.testing.assert_close(logits(trained)[keep], other[keep], atol=1e-4, rtol=0)
    hypotheses = greedy(own, rows.source, rows.source_mask)
    for line, row, hypothesis in zip(SPLIT.sources, rows.source, hypotheses, strict=False):
        ids = tokenizer(normalise(line)).input_ids
        assert ids == [token for token in row.tolist() if token != subwords.vocabulary.pad]
        limit = 2 * len(ids) + 20
        source = torch.tensor([ids])
        (written,) = model.generate(
            source, max_new_tokens=limit, forced_eos_token_id=None, num_beams=1
        )
        written = [token for token in written.tolist() if token not in (0, 2, 3)]
        assert written == hypothesis.tokens
        text = tokenizer.decode(written, skip_special_tokens=True)
        assert text.split() == subwords.decode(written).replace("\u2047", "").split()


@pytest.mark.parametrize("name", MODELS)
def test_there_and_back_is_bit_equal(name, subwords, tmp_path):
    trained = made(subwords, **MODELS[name])
    out.write(trained, tmp_path / "folder")
    again = marian.read(tmp_path / "folder")
    no_bias = {"output_bias": torch.zeros(len(subwords))}
    assert again.weights.keys() == (no_bias | trained.weights).keys()
    for key, value in (no_bias | trained.weights).items():
        assert torch.equal(again.weights[key], value), key
    assert torch.equal(logits(again), logits(trained))
    text = SPLIT.sources[0]
    assert again.subwords.encode_source(text) == subwords.encode_source(text)


@pytest.mark.parametrize(("beam", "written"), [(None, 5), (3, 3)])
def test_the_usual_beam_is_written(beam, written, subwords, tmp_path):
    trained = made(subwords, **MODELS["relu"])
    setup = replace(trained.setup, decoding={**trained.setup.decoding, "beam": beam})
    out.write(replace(trained, setup=setup), tmp_path / "folder")
    config = json.loads((tmp_path / "folder" / "generation_config.json").read_text())
    assert config["num_beams"] == written


@pytest.mark.parametrize(
    ("config", "generation", "beam"), [(4, 6, 6), (4, None, 4), (None, 6, 6), (None, None, None)]
)
def test_the_usual_beam_is_that_of_the_generation_config(
    config, generation, beam, subwords, tmp_path
):
    folder = tmp_path / "folder"
    out.write(made(subwords, **MODELS["relu"]), folder)
    for name, beams in (("config.json", config), ("generation_config.json", generation)):
        fields = json.loads((folder / name).read_text())
        own = {} if beams is None else {"num_beams": beams}
        (folder / name).write_text(json.dumps({**fields, "num_beams": None} | own))
    assert marian.read(folder).setup.decoding["beam"] == beam


def test_an_imported_model_goes_back(tmp_path):
    folder = write_folder(tmp_path / "folder", codes=CODES, half=True)
    exported.write(marian.read(folder, "fra"), tmp_path / "here", {})
    chosen = (f"checkpoint={tmp_path / 'here'}", f"to={tmp_path / 'back'}", "format=marian")
    export(configuration("export", *chosen))
    for name in ("source.spm", "target.spm", "vocab.json"):
        assert (folder / name).read_bytes() == (tmp_path / "back" / name).read_bytes()
    before, after = (
        safetensors.torch.load_file(place / "model.safetensors")
        for place in (folder, tmp_path / "back")
    )
    for name, value in before.items():
        assert torch.equal(after[name], value.float()) or name.endswith("k_proj.bias")
    card = (tmp_path / "back" / "README.md").read_text()
    assert card.startswith("---\nlicense: apache-2.0\n---\n")
    assert '">>fra<< SENTENCE"' in card


@pytest.mark.parametrize(
    ("mechanism", "changes", "message"),
    [
        ("wait_k", {"encoder": "causal"}, "mechanism.schedule=wait_k .* only full_sentence"),
        ("soft", {"norm": "pre"}, "model.norm=pre .* only post: leave out format"),
        ("soft", {"average_embedding": True, "encoder": "causal"}, "model.average_embedding=True"),
    ],
)
def test_parts_that_the_format_has_not_are_named(mechanism, changes, message, subwords, tmp_path):
    with pytest.raises(UserError, match=message):
        out.write(made(subwords, mechanism, **changes), tmp_path / "folder")
    assert not [*tmp_path.iterdir()]
