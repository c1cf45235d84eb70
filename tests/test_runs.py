"""Whole runs through the composition root: train, resume, evaluate, start from another run."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from simulmt.errors import UserError
from simulmt.programs.evaluate import evaluate
from simulmt.programs.export import export
from simulmt.programs.train import train
from simulmt.run_directory import read_record
from simulmt.saved.checkpoint import load_subwords
from simulmt.scoring.scores import Decoding, Scores
from simulmt.training.run import Patience

ROOT = Path(__file__).parents[1]
TINY = [
    "data.train=300",
    "data.valid=21",
    "data.test=23",
    "data.subwords.size=400",
    "data.batch_tokens=300",
    "model.dim=16",
    "model.ffn=16",
    "model.heads=2",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "optim.lr=5e-3",
    "optim.warmup=4",
    "objective.hold=1",
    "objective.warmup=2",
    "trainer.log_every=1",
    "trainer.progress=false",
]
SMALL = [*TINY, "trainer.max_updates=6", "trainer.validate_every=3"]
LONGER = ["trainer.max_updates=90", "trainer.validate_every=90", "optim.warmup=20"]
pytestmark = [
    pytest.mark.usefixtures("no_pictures"),
    pytest.mark.filterwarnings(
        "ignore:.*LeafSpec.*",  # Lightning's own, of a call that torch renamed
        "ignore:.*Trainer.fit.*weights_only.*",
    ),
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


def configuration(program: str, *overrides: str) -> DictConfig:
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return compose(program, [*overrides])


def run(folder: Path, cache: Path, *overrides: str) -> dict:
    chosen = [*SMALL, "mechanism=mma_il", "lambda=0.2", f"cache={cache}", *overrides]
    train(configuration("train", *chosen), str(folder))
    return json.loads((folder / "test_scores.json").read_text())


@pytest.fixture(scope="module")
def finished(tmp_path_factory, cache) -> Path:
    folder = tmp_path_factory.mktemp("run")
    run(folder, cache)
    return folder


def weights(folder: Path, name: str = "last.ckpt") -> dict:
    path = folder / "checkpoints" / name
    return torch.load(path, weights_only=True)["state_dict"]


def metrics(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def assert_same_scores(folder: Path) -> None:
    again = folder / "evaluation" / "test-best"
    for one, other in (("test_scores.json", "scores.json"), ("instances.log", "instances.log")):
        assert (again / other).read_bytes() == (folder / one).read_bytes()


def test_a_run_directory_holds_what_it_promises(finished):
    scores = read_record(finished / "test_scores.json", Scores)
    assert (*scores.oracle["word"],) == ("AP", "AL", "AL_ref", "LAAL", "DAL", "CW")
    assert (scores.sentences, scores.empty) == (23, 0)
    assert scores.decoding == Decoding("best", "test", 1)
    traits = json.loads((finished / "traits.json").read_text())
    assert traits == {"learned": True, "offline": False, "dials": {}}
    lines = (finished / "instances.log").read_text().splitlines()
    keys = {
        "index",
        "prediction",
        "delays",
        "prediction_length",
        "reference",
        "source",
        "source_length",
    }
    assert [json.loads(line)["index"] for line in lines] == list(range(23))
    assert all(set(json.loads(line)) == keys for line in lines)
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


def test_evaluate_gives_the_same_scores_to_the_last_digit(finished, cache):
    evaluate(configuration("evaluate", f"checkpoint={finished}", "device=cpu"))
    assert_same_scores(finished)


@pytest.mark.parametrize("model", ["rnmt_plus", "luong"])
@pytest.mark.parametrize("mechanism", ["milk", "luong_local_p"])
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


def test_a_resumed_run_ends_where_an_uninterrupted_one_does(finished, tmp_path, cache):
    run(tmp_path, cache, "trainer.max_updates=3")
    run(tmp_path, cache, "ckpt_path=last")
    for name, value in weights(finished).items():
        assert torch.equal(value, weights(tmp_path)[name]), name
    old, new = ([row["train/loss"] for row in metrics(f)] for f in (finished, tmp_path))
    assert [loss for loss in new if loss] == [loss for loss in old if loss]
    record = json.loads((tmp_path / "training.json").read_text())
    assert (record["updates"], record["resumed_at"]) == (6, 3)


def test_ckpt_path_last_starts_where_there_is_none(tmp_path, cache):
    run(tmp_path, cache, "ckpt_path=last", "trainer.max_updates=3")
    assert (tmp_path / "checkpoints" / "last.ckpt").exists()


def test_the_average_is_that_of_the_last_checkpoints(tmp_path, cache):
    run(tmp_path, cache, "trainer.average=2")
    parts = [weights(tmp_path, f"step-000000{step}.ckpt") for step in (3, 6)]
    for name, value in weights(tmp_path, "average.ckpt").items():
        torch.testing.assert_close(value, (parts[0][name] + parts[1][name]) / 2)


def test_starting_from_another_mechanism(finished, tmp_path, cache, capsys):
    run(tmp_path, cache, f"init_from={finished}", "mechanism=soft", "lambda=0")
    assert "parameter tensors start from" in capsys.readouterr().out


def test_fine_tuning_on_other_sentences(finished, tmp_path, cache, capsys):
    other, given = ["data.seed=5", f"init_from={finished}"], tmp_path / "joint.model"
    with pytest.raises(UserError, match=r"train with the model's own .data\.subwords\.model=RUN"):
        run(tmp_path / "refused", cache, *other)
    trained = sorted(cache.rglob("*"))
    load_subwords(finished).save(given)
    run(tmp_path, cache, *other, f"data.subwords.model={given}", "data.subwords.size=9")
    taken, of = re.findall(r"(\d+) of (\d+) parameter tensors start", capsys.readouterr().out)[0]
    assert taken == of == str(len(weights(finished)))
    assert sorted(cache.rglob("*")) == trained
    before, after = (json.loads((f / "manifest.json").read_text()) for f in (finished, tmp_path))
    assert before["subwords"] == after["subwords"]
    assert before["splits"] != after["splits"]
    given.unlink()  # the checkpoint has its own
    evaluate(configuration("evaluate", f"checkpoint={tmp_path}", "device=cpu"))
    assert_same_scores(tmp_path)


def test_given_subwords_are_read_from_whatever_has_them(finished, tmp_path):
    checkpoints, exported = finished / "checkpoints", tmp_path / "exported"
    export(configuration("export", f"checkpoint={finished}", f"to={exported}"))
    places = [finished, checkpoints / "last.ckpt", exported, exported / "subwords.model"]
    assert len({load_subwords(place).digest for place in places}) == 1


def test_given_subwords_are_refused_before_any_text_is_read(tmp_path, cache, monkeypatch):
    monkeypatch.setattr("simulmt.programs.train.build_corpus", pytest.fail)
    with pytest.raises(UserError, match=r"subwords.model=none.model: .*; give a SentencePiece"):
        run(tmp_path, cache, "data.subwords.model=none.model")
    (tmp_path / "some.txt").write_text("no model")
    with pytest.raises(UserError, match=r"some.txt: 8 bytes that are no SentencePiece model"):
        run(tmp_path, cache, f"data.subwords.model={tmp_path / 'some.txt'}")
    with pytest.raises(UserError, match=r"has no option pieces; its options are: .*, model"):
        run(tmp_path, cache, f"data.subwords.model={tmp_path}", "+data.subwords.pieces=3")


@pytest.mark.parametrize("accumulate", [2, 4])
def test_resuming_between_accumulated_batches(accumulate, tmp_path, cache):
    """An epoch is a multiple of the accumulated batches, so no update is cut in two."""
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    options = [f"trainer.accumulate={accumulate}", "data.train=150", "data.batch_tokens=200"]
    run(whole, cache, *options, "trainer.max_updates=12")
    run(halves, cache, *options, "trainer.max_updates=9")
    run(halves, cache, *options, "trainer.max_updates=12", "ckpt_path=last")
    assert (whole / "checkpoints" / "step-0000012.ckpt").exists()
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(halves)[name]), name


def test_every_logged_update_is_that_of_its_row(finished, tmp_path, cache):
    run(tmp_path, cache, "trainer.log_every=2")
    every = {row["step"]: row["train/loss"] for row in metrics(finished)}
    some = {row["step"]: row["train/loss"] for row in metrics(tmp_path) if row["train/loss"]}
    assert some == {step: every[step] for step in ("1", "3", "5")}


def test_a_run_is_replaced_only_once_its_successor_can_start(finished, tmp_path, cache):
    folder, teacher = tmp_path / "copy", tmp_path / "teacher"
    shutil.copytree(finished, folder)
    run(teacher, cache, "mechanism=soft", "lambda=0", "data.subwords.size=150")
    other = ["teacher=pretrained", f"teacher.checkpoint={teacher}"]
    for options, message in (
        (["data.subwords.size=99999"], "too large"),
        (["data.batch_tokens=3"], "raise it to"),
        (["data.test=0"], "no test pairs"),
        (other, "the data are not those of the model"),
    ):
        with pytest.raises(UserError, match=message):
            run(folder, cache, *options)
        assert (folder / "checkpoints" / "best.ckpt").exists()
        assert (folder / "test_scores.json").exists()
        assert (folder / "config.json").read_bytes() == (finished / "config.json").read_bytes()


def test_an_average_is_none_once_its_run_goes_on(tmp_path, cache):
    run(tmp_path, cache, "trainer.average=2")
    assert (tmp_path / "checkpoints" / "average.ckpt").exists()
    run(tmp_path, cache, "trainer.max_updates=9", "ckpt_path=last")
    assert not (tmp_path / "checkpoints" / "average.ckpt").exists()


def test_an_average_has_no_update_to_go_on_from(tmp_path, cache):
    run(tmp_path / "first", cache, "trainer.average=2")
    average = tmp_path / "first" / "checkpoints" / "average.ckpt"
    with pytest.raises(UserError, match="holds weights alone, no update to resume at"):
        run(tmp_path / "second", cache, f"ckpt_path={average}")


@pytest.mark.parametrize(
    "change", ["data.seed=5", "model.ffn=24", "mechanism.noise=1", "optim.lr=1"]
)
def test_resuming_with_something_else_is_refused(change, finished, tmp_path, cache):
    checkpoint = finished / "checkpoints" / "last.ckpt"
    with pytest.raises(UserError, match=r"cannot resume with|data are not those"):
        run(tmp_path, cache, f"ckpt_path={checkpoint}", change)


def test_a_checkpoint_without_an_update_left_is_refused_elsewhere(finished, tmp_path, cache):
    (tmp_path / "kept").mkdir()
    checkpoint = finished / "checkpoints" / "last.ckpt"
    with pytest.raises(UserError, match=r"trained for 6 updates.*max_updates is 6: raise it"):
        run(tmp_path / "kept", cache, f"ckpt_path={checkpoint}")


def test_more_processes_than_gpus_are_refused(tmp_path, cache, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    options = ["trainer=ddp", "trainer.devices=2"]
    with pytest.raises(UserError, match=r"trainer.devices is 2, this machine has GPUs: 1"):
        run(tmp_path, cache, *options)


def test_the_patience_is_that_of_the_command():
    patience = Patience("valid/selection", patience=10)
    patience.load_state_dict(Patience("valid/selection", patience=3).state_dict())
    assert patience.patience == 10


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


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["mechanism=soft"], "lambda=0.2 .* mechanism=soft: its schedule is fixed"),
        (["mechanism=wait_k", "lambda=0", "lambda_var=1"], "mechanism=wait_k"),
        (
            ["mechanism=wait_k", "lambda=0", "mechanism.k=0"],
            "mechanism.k is 0; it must be from 1 to 1,000,000",
        ),
        (["mechanism=mocha", "mechanism.chunk=0"], "chunk is 0"),
        (["mechanism.noise=-1"], "noise is -1"),
        (["mechanism.noise=nan"], "noise is nan"),
        (["mechanism.energy_bias=inf"], "energy_bias is inf"),
        (["mechanism=wait_k", "lambda=0", "mechanism.emission_rate=nan"], "emission_rate is nan"),
        (
            ["mechanism=wait_k", "lambda=0", "mechanism.k=10000000"],
            "k is 10000000; it must be from 1",
        ),
        (["mechanism.schedule=[wait_k]"], "mechanism.schedule is .'wait_k'.; choose one of"),
        (["mechanism.heads=two"], "mechanism.heads is 'two'; choose one of one, all, usual"),
        (["mechanism.score=cosine"], "mechanism.score is 'cosine'; choose one of usual, scaled"),
        (["model.decoder_layers=0"], "model.decoder_layers is 0; it must be at least 1"),
        (["decoding.beam=5"], "decoding.beam=5 with mechanism=mma_il: the mechanism writes before"),
        (["mechanism.noise=loud"], "mechanism.noise is 'loud'; it must be of type float"),
        (["+mechanism.chunks=3"], "no option chunks; its options are: noise, energy_bias"),
        (["mechanism.span=all"], "mechanism.span is 'all'; choose one of stopped, chunk"),
        (["model.dim=130", "model.heads=4"], "model.dim is 130"),
        (["model.norm=both"], "model.norm is 'both'; choose one of pre, post"),
        (["model.encoder=bidirectional"], "mechanism=mma_il streams"),
        (["lambda=-1"], "lambda is -1"),
        (["objective.hold=6"], "held back for objective.hold updates, then grown over"),
        (["objective.latency=al"], "choose one of"),
        (["trainer.max_updates=0"], "trainer.max_updates is 0"),
        (["trainer.patience=0"], "trainer.patience is 0; it must be at least 1, or null"),
        (["trainer.clip=-1"], "trainer.clip is -1.* or 0 for none"),
        (["seed=4294967296"], "seed is 4294967296; it must be a whole number from 0 to 4,294,967"),
        (["trainer.validate_every=4"], "max_updates is 6, no multiple of .*validate_every"),
        (["trainer.dal_range=[5,2]"], "runs from least to most"),
        (["trainer.dal_range=[2,5]", "trainer.average=2"], "set average to 1"),
        (["trainer.precision=bf"], "trainer.precision is 'bf'; choose one of"),
        (["trainer.accelerator=tpu"], "trainer.accelerator is 'tpu'; choose one of"),
        (["trainer.devices=0"], "trainer.devices is 0"),
        (["trainer.patience=1", "trainer.validate_every=2"], "could end the run before lambda"),
        (["seed=-1"], "seed is -1"),
        (["model.heads=0"], "model.heads is 0; it must be at least 1"),
        (["lambda=nan"], "lambda is nan"),
        (["objective.hold=-5"], "objective.hold is -5; it must be at least 0"),
        (["~data.batch_tokens"], "data lacks a value for batch_tokens"),
        (["data.batch_tokens=many"], "data.batch_tokens is 'many'; .* type int"),
        (["~mechanism.heads"], "mechanism lacks a value for heads"),
        (["+data.subwords.pieces=3"], "data.subwords has no option pieces"),
        (["trainer.dal_range=[1]"], "dal_range is .* must be of type"),
        (["optim.lr=0"], "optim.lr is 0"),
        (["ckpt_path=nowhere.ckpt"], "ckpt_path=nowhere.ckpt: there is no such file"),
        (["init_from=nowhere"], "no checkpoint at nowhere"),
        (["logger=wandb", "logger.mode=maybe"], "logger.mode is 'maybe'"),
        (["data=text"], "data.root: Missing mandatory value"),
        (["data.subwords.size=99999"], "size=99999 .* too large"),
        (["+foo=3"], "the configuration has no option foo; its options are: data, mechanism"),
        (["~decoding"], "the configuration lacks a value for decoding"),
        (["cache=null"], "^cache is None; it must be of type str"),
        (["ckpt_path=true"], "^ckpt_path is True"),
        (["decoding=null"], "^decoding is None"),
        (["~model.name"], "model.name is None; choose one of"),
        (["~teacher.kind"], "teacher.kind is None; choose one of"),
        (["~logger.kind"], "logger.kind is None; choose one of"),
        (["~data.corpus"], "data lacks a value for corpus"),
        (["trainer.dal_range=[nan,3]"], "runs from least to most"),
        (["data.test=0"], "no test pairs to make batches of"),
        (["trainer.devices=2", "data.valid=1"], "1 valid pairs to evaluate on 2 processes"),
        (["data.batch_tokens=3"], "pairs are longer; raise it to"),
    ],
)
def test_bad_choices_end_in_one_line(overrides, message, tmp_path, cache):
    if overrides == ["data=text"]:
        chosen = [*overrides, "lambda=0.2"]
    else:
        chosen = [*SMALL, "mechanism=mma_il", "lambda=0.2", f"cache={cache}", *overrides]
    with pytest.raises(UserError, match=message):
        train(configuration("train", *chosen), str(tmp_path))


def test_export_refuses_keys_that_it_does_not_have():
    with pytest.raises(UserError, match=r"export.py has no option split; its options are: check"):
        export(configuration("export", "checkpoint=nowhere", "to=there", "+split=test"))


def test_evaluate_refuses_other_data_and_other_files(finished, tmp_path):
    with pytest.raises(UserError, match="split is 'dev'; choose one of train, valid, test"):
        evaluate(configuration("evaluate", f"checkpoint={finished}", "split=dev"))
    with pytest.raises(UserError, match="no checkpoint at"):
        evaluate(configuration("evaluate", f"checkpoint={tmp_path}"))
    damaged = tmp_path / "damaged.ckpt"
    damaged.write_bytes((finished / "checkpoints" / "best.ckpt").read_bytes()[:5000])
    with pytest.raises(UserError, match="is no readable checkpoint"):
        evaluate(configuration("evaluate", f"checkpoint={damaged}"))
    other = torch.load(finished / "checkpoints" / "best.ckpt", weights_only=True)
    other["simulmt"]["config"]["data"]["seed"] = 7
    torch.save(other, tmp_path / "other.ckpt")
    with pytest.raises(UserError, match="the data are not those of the model"):
        evaluate(configuration("evaluate", f"checkpoint={tmp_path / 'other.ckpt'}"))


ANSWERS = [
    (["lambda=0.1", "mechanism=soft"], "its schedule is fixed"),
    (["mechanism.nois=1"], "The keys there are: name, schedule, span, heads, score, noise"),
    (["mechanism=mma"], "Could not find 'mechanism/mma'"),
    (["trainer.dal_range=[1,"], "error:"),
    (["data=null"], "a group (data, mechanism, model, ...) needs a choice"),
    (["lambda=${nothing}"], "Interpolation key 'nothing' not found"),
]
SEVERAL = """
import json, runpy, sys
from contextlib import redirect_stderr
from io import StringIO
answers = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["train.py", *arguments]
    with redirect_stderr(StringIO()) as errors:
        try:
            runpy.run_path("train.py", run_name="__main__")
        except SystemExit as end:
            answers.append((end.code, errors.getvalue()))
print(json.dumps(answers))
"""


def test_the_command_line_answers_without_a_traceback(tmp_path):
    """One process answers all, as the file that is run; only `SystemExit` may end it early."""
    typed = [[*arguments, f"hydra.run.dir={tmp_path}"] for arguments, _ in ANSWERS]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, "-c", SEVERAL, json.dumps(typed)]
    done = ask(command, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    answers = json.loads(done.stdout)
    for (status, said), (_, message) in zip(answers, ANSWERS, strict=True):
        assert status == 2
        assert message in said
        assert "Traceback" not in said


def test_the_shell_sees_the_status_and_no_traceback(tmp_path):
    arguments, message = ANSWERS[0]
    done = ask([sys.executable, "train.py", *arguments, f"hydra.run.dir={tmp_path}"])
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def ask(command: list[str], **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, **options
    )
