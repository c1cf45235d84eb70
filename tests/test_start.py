"""`init_from`: the model of the checkpoint, or another one that shares enough with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import zoo
from commands import type_in
from simulmt.errors import UserError
from simulmt.parts.builders import build_mechanism, build_model, outline_model
from simulmt.parts.configuration import Setup
from simulmt.programs.plain import plain
from simulmt.programs.run_spec import RunSpec
from simulmt.saved import checkpoint
from small_runs import ROOT, SMALL, configuration

pytestmark = pytest.mark.usefixtures("no_pictures")
BIDIRECTIONAL = ("mechanism=soft", "model.encoder=bidirectional")
SIZES = ("dim", "ffn", "heads", "encoder_layers", "decoder_layers")


@pytest.fixture
def start(trained_once) -> Path:
    return trained_once(*BIDIRECTIONAL, "model.dropout=0.4")


def model_of(*typed: object, knows: bool = True) -> dict:
    """The model that a command line trains; without `knows`, that of its configuration."""
    words = [*map(str, typed)]
    return RunSpec.of(plain(configuration("train", *words)), words if knows else None).config.model


def test_without_a_choice_the_model_is_that_of_the_checkpoint(start):
    theirs = checkpoint.load(start).setup.model
    whole = model_of(f"init_from={start}", "mechanism=soft")
    assert whole == {**theirs, "dropout": 0.1}, "dropout is an option of training"
    for mechanism in ("mma_il", "multi_path"):
        streams = model_of(f"init_from={start}", f"mechanism={mechanism}", "experiments=adapt")
        assert streams == {**whole, "encoder": "causal"}
    typed = model_of(f"init_from={start}", "mechanism=soft", "model.dropout=0.3", "++model.heads=4")
    assert typed == {**whole, "dropout": 0.3, "heads": 4}


def test_a_chosen_model_shares_half_of_its_parameters_or_is_rejected(start):
    given = [f"init_from={start}", "mechanism=soft"]
    for other in ("model=transformer", "model=rnmt_plus", "model.decoder_layers=9"):
        message = f"init_from={start}: only .* of the parameters. match: .*model=.*init_partial"
        with pytest.raises(UserError, match=message):
            model_of(*given, other)
    assert model_of(*given, other, "init_partial=true") != model_of(*given)
    for other in ("model=transformer", "model=rnmt_plus"):  # would train from scratch
        with pytest.raises(UserError, match="only 0 of"):
            model_of(*given, other, "init_partial=true")
    with pytest.raises(UserError, match="less than half"):  # from Python, too
        model_of(*given, knows=False)


WRAPPED = [("causal", False), ("causal", True), ("reencoding", False)]


@pytest.mark.parametrize(("encoder", "averages"), WRAPPED)
def test_the_attention_to_the_source_starts_from_that_of_any_model(encoder, averages, start):
    """Also if averages of what was read, or the states of each prefix, are around one of them."""
    trained = checkpoint.load(start)
    chosen = {**trained.setup.model, "encoder": encoder, "average_embedding": averages}
    wait_k = build_mechanism(zoo.options("wait_k"))
    model = build_model(chosen, wait_k, trained.subwords.vocabulary)
    found = checkpoint.load_matching(model, trained)
    assert [*found.absent] == ["average.project.weight"] * averages
    for name in found.loaded:
        theirs = trained.weights[name.replace("attention.attention", "attention")]
        assert torch.equal(model.state_dict()[name], theirs)
    back = replace(trained, weights=model.state_dict())
    assert checkpoint.load_matching(trained.build(), back).share == 1


@pytest.mark.parametrize("presets", ["experiments=adapt", "experiments=[multi30k_cpu,adapt]"])
@pytest.mark.parametrize("mechanism", ["mma_il", "milk", "multi_path", "emma"])
def test_fine_tuning_as_in_the_experiments_trains_the_model_of_its_preset(
    presets, mechanism, start, monkeypatch
):
    """Their offline model comes from the same presets."""
    offline = plain(configuration("train", presets, *BIDIRECTIONAL))
    trained = checkpoint.load(start)
    soft = build_mechanism(offline["mechanism"])
    outline = outline_model(offline["model"], soft, trained.subwords.vocabulary)
    parts = {"setup": Setup.of(offline), "weights": outline.state_dict()}
    monkeypatch.setattr(checkpoint, "load", lambda *_: replace(trained, **parts))
    words = [presets, f"init_from={start}", f"mechanism={mechanism}"]
    assert model_of(*words) == model_of(*words, knows=False)


def test_the_command_line_is_known_to_runs_and_sweeps(start, tmp_path):
    sizes = tuple(f"model.{size}=" for size in SIZES)
    given = [word for word in SMALL if not word.startswith(sizes)]
    given += [f"init_from={start}", "mechanism=wait_k", f"cache={tmp_path / 'cache'}"]
    train, place = ROOT / "train.py", f"hydra.run.dir={tmp_path / 'run'}"
    done, rejected, swept = type_in(
        [train, *given, place],
        [train, *given, place, "model=transformer"],
        [train, "-m", *given, f"hydra.sweep.dir={tmp_path / 'sweep'}", "model=transformer,luong"],
        cwd=tmp_path,
    )
    assert done.status == 0, done
    assert "(100.0% of the parameters) start from" in done.out
    theirs = checkpoint.load(start).setup.model
    own = checkpoint.load(tmp_path / "run").setup.model
    assert [own[size] for size in SIZES] == [theirs[size] for size in SIZES]
    assert (rejected.status, swept.status) == (2, 2)
    assert "init_from=" in rejected.err
    assert swept.out.count("failed: init_from=") == 2


def test_a_model_of_sentences_learns_what_streams_need(start):
    preset = ["experiments=streams/verbfinal", "data.history=20", "mechanism=wait_k"]
    model = model_of(f"init_from={start}", *preset)
    assert (model["boundaries"], model["history"]) == (True, 20)
