"""Whole runs through the composition root: train, evaluate, start from another run."""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from simulmt.errors import UserError
from simulmt.programs.evaluate import evaluate
from simulmt.programs.train import train
from simulmt.saved.checkpoint import load_subwords
from simulmt.scoring.scores import Decoding, Scores
from simulmt.system.disk import read_record
from small_runs import ROOT, SMALL, assert_same_scores, configuration, metrics, run, weights

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture(scope="module")
def finished(trained_once) -> Path:
    return trained_once("mechanism=mma_il", "lambda=0.2")


def test_a_run_directory_holds_what_it_promises(finished):
    scores = read_record(finished / "test_scores.json", Scores)
    assert (*scores.oracle["word"],) == ("AP", "AL", "AL_ref", "LAAL", "DAL", "CW")
    assert (*scores.faithfulness,) == ("sufficiency", "necessity", "hallucination")
    assert (scores.sentences, scores.empty) == (11, 0)
    assert scores.decoding == Decoding("best", "test", 1)
    traits = json.loads((finished / "traits.json").read_text())
    assert traits == {"learned": True, "offline": False, "dials": {"threshold": 0.5}}
    lines = (finished / "instances.log").read_text().splitlines()
    keys = {
        "index",
        "prediction",
        "delays",
        "prediction_length",
        "reference",
        "source",
        "source_length",
        "subword_delays",
    }
    assert [json.loads(line)["index"] for line in lines] == list(range(11))
    assert all(set(json.loads(line)) - {"before_end"} == keys for line in lines)
    assert {"best.ckpt", "last.ckpt"} <= {p.name for p in (finished / "checkpoints").iterdir()}
    assert json.loads((finished / "manifest.json").read_text())["splits"]["train"]["pairs"] == 300
    config = json.loads((finished / "config.json").read_text())
    assert (config["mechanism"]["name"], config["lambda"]) == ("mma_il", 0.2)
    assert (finished / "path.png").stat().st_size > 1000


def test_the_training_is_on_record(finished):
    record = json.loads((finished / "training.json").read_text())
    speeds = [float(row["train/tokens_per_s"]) for row in metrics(finished) if row["train/loss"]]
    assert record["tokens_per_second"] == statistics.median(speeds)
    assert (record["updates"], record["resumed_at"], record["processes"]) == (6, 0, 1)
    assert (record["threads"], record["device"]) == (torch.get_num_threads(), "cpu")
    assert record["parameters"] == sum(value.numel() for value in weights(finished).values())
    assert record["seconds"] > 0


def test_metrics_hold_every_update_and_validation(finished):
    rows = metrics(finished)
    assert [int(row["step"]) for row in rows if row["train/loss"]] == list(range(6))
    held = [float(row["train/lambda"]) for row in rows if row["train/loss"]]
    assert held == [0.0, 0.1, 0.2, 0.2, 0.2, 0.2], "held for one update, grown over two"
    validated = [row for row in rows if row["valid/BLEU"]]
    assert len(validated) == 2
    assert all(float(row["valid/word/DAL"]) > 0 for row in validated)


def test_evaluate_gives_the_same_scores_to_the_last_digit(finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "copy")
    evaluate(configuration("evaluate", f"checkpoint={copy}", "device=cpu"))
    assert_same_scores(copy)


@pytest.mark.parametrize(
    ("model", "mechanism"),
    [("luong", "luong_local_p"), pytest.param("rnmt_plus", "milk", marks=pytest.mark.slow)],
)
def test_recurrent_models_train_and_are_evaluated_alike(model, mechanism, tmp_path, cache):
    chosen = [override for override in SMALL if not override.startswith("model.ffn")]
    chosen += [f"model={model}", f"mechanism={mechanism}", f"cache={cache}"]
    train(configuration("train", *chosen), str(tmp_path))
    evaluate(configuration("evaluate", f"checkpoint={tmp_path}", "device=cpu"))
    assert_same_scores(tmp_path)


def test_the_same_command_gives_the_same_numbers(finished, tmp_path, cache):
    run(tmp_path, cache)
    for name, value in weights(finished).items():
        assert torch.equal(value, weights(tmp_path)[name]), name


def test_parameters_of_another_run_stand_still_at_first(finished, tmp_path, cache, capsys):
    given, own = [f"init_from={finished}", "mechanism=emma", "lambda_var=0.1"], tmp_path / "own"
    run(own, cache, *given, "init_freeze=3", "trainer.average=2")
    at_first, later = (weights(own, f"step-000000{step}.ckpt") for step in (3, 6))
    start = weights(finished, "best.ckpt")
    new = {name for name in later if name not in start or start[name].shape != later[name].shape}
    assert {name.split("source_attention.")[1].split(".")[0] for name in new} == {"schedule"}
    for name, value in later.items():
        if name in new:
            assert not torch.equal(at_first[name], value), name
        else:
            assert torch.equal(at_first[name], start[name]), name
    assert any(not torch.equal(later[name], start[name]) for name in later.keys() - new)
    run(tmp_path / "all", cache, f"init_from={finished}", "init_freeze=3")
    assert "init_freeze=3 has no effect" in capsys.readouterr().out


def test_fine_tuning_on_other_sentences(finished, tmp_path, cache, capsys):
    other, given = ["data.seed=5", f"init_from={finished}"], tmp_path / "joint.model"
    with pytest.raises(
        UserError, match=r"train with the model's subwords .data\.subwords\.model=RUN"
    ):
        run(tmp_path / "refused", cache, *other)
    trained = sorted((cache / "subwords").iterdir())
    given.write_bytes(load_subwords(finished).files["subwords.model"])
    run(tmp_path, cache, *other, f"data.subwords.model={given}", "data.subwords.size=9")
    said = capsys.readouterr().out
    taken, of = re.findall(r"(\d+) of (\d+) parameter tensors .* start from", said)[0]
    assert taken == of == str(len(weights(finished)))
    assert sorted((cache / "subwords").iterdir()) == trained
    before, after = (json.loads((f / "manifest.json").read_text()) for f in (finished, tmp_path))
    assert before["subwords"] == after["subwords"]
    assert before["splits"] != after["splits"]
    given.unlink()  # the checkpoint has its own
    evaluate(configuration("evaluate", f"checkpoint={tmp_path}", "device=cpu"))
    assert_same_scores(tmp_path)


def test_given_subwords_are_refused_before_any_text_is_read(tmp_path, cache, monkeypatch):
    monkeypatch.setattr("simulmt.parts.builders.Data.read", pytest.fail)
    with pytest.raises(UserError, match=r"data.subwords.model=none.model does not exist"):
        run(tmp_path, cache, "data.subwords.model=none.model")


@pytest.mark.slow
def test_two_processes_train_and_score_as_one(tmp_path, cache):
    """Without dropout and noise, two processes of DDP take the steps of accumulating two batches.

    Gradients are summed in another order, so weights agree to float32 rounding, grown over six
    updates of Adam; what is scored is scored from the same checkpoint, to the last digit.
    """
    still = ["model.dropout=0", "mechanism.noise=0", f"cache={cache}"]
    one, two = tmp_path / "one", tmp_path / "two"
    run(one, cache, *still, "trainer.accumulate=2")
    command = [sys.executable, "train.py", *SMALL, "lambda=0.2", *still]
    ddp = ["trainer=ddp", "trainer.accelerator=cpu", "trainer.max_updates=6"]
    subprocess.run([*command, *ddp, f"hydra.run.dir={two}"], cwd=ROOT, check=True, timeout=300)
    for name, value in weights(one).items():
        torch.testing.assert_close(weights(two)[name], value, rtol=0, atol=2e-4)
    evaluate(configuration("evaluate", f"checkpoint={two}", "device=cpu"))
    assert_same_scores(two)


def test_evaluate_refuses_other_data_and_other_files(finished, tmp_path):
    with pytest.raises(UserError, match="split is 'dev'; choose one of train, valid, test"):
        evaluate(configuration("evaluate", f"checkpoint={finished}", "split=dev"))
    with pytest.raises(UserError, match="no checkpoint at"):
        evaluate(configuration("evaluate", f"checkpoint={tmp_path}"))
    other = torch.load(finished / "checkpoints" / "best.ckpt", weights_only=True)
    other["simulmt"]["config"]["data"]["seed"] = 7
    torch.save(other, tmp_path / "other.ckpt")
    with pytest.raises(UserError, match="the data are not those of the model"):
        evaluate(configuration("evaluate", f"checkpoint={tmp_path / 'other.ckpt'}"))
