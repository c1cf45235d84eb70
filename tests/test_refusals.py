"""Choices that no run can have end in one line, before anything is trained."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys

import pytest

from commands import type_in
from simulmt.errors import UserError
from simulmt.programs.train import train
from small_runs import ROOT, SMALL, configuration

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["mechanism=soft"], "lambda=0.2 .* mechanism=soft, whose decisions have no gradient"),
        (["mechanism=wait_k", "lambda=0", "lambda_var=1"], "mechanism=wait_k"),
        (
            ["mechanism=wait_k", "lambda=0", "mechanism.k=0"],
            "mechanism.k is 0",
        ),
        (["mechanism=mocha", "mechanism.chunk=0"], "chunk is 0"),
        (["mechanism.noise=-1"], "noise is -1"),
        (["mechanism.noise=nan"], "noise is nan"),
        (["mechanism.energy_bias=inf"], "energy_bias is inf"),
        (["mechanism=wait_k", "lambda=0", "mechanism.emission_rate=nan"], "emission_rate is nan"),
        (
            ["mechanism=wait_k", "lambda=0", "mechanism.k=10000000"],
            "k is 10000000",
        ),
        (["mechanism.schedule=[wait_k]"], "mechanism.schedule is .'wait_k'.; choose one of"),
        (["mechanism.heads=two"], "mechanism.heads is 'two'"),
        (["mechanism.score=cosine"], "mechanism.score is 'cosine'; choose one of usual, scaled"),
        (["model.decoder_layers=0"], "model.decoder_layers is 0"),
        (["decoding.beam=5"], "decoding.beam=5 with mechanism=mma_il: the mechanism writes before"),
        (["mechanism.noise=loud"], "mechanism.noise is 'loud'"),
        (["+mechanism.chunks=3"], "no option chunks; its options are: noise, energy_bias"),
        (["mechanism.span=all"], "mechanism.span is 'all'; choose one of stopped, chunk"),
        (["model.dim=130", "model.heads=4"], "model.dim is 130"),
        (["model.norm=both"], "model.norm is 'both'"),
        (["model.encoder=bidirectional"], "mechanism=mma_il streams"),
        (["lambda=-1"], "lambda is -1"),
        (
            ["objective.hold=6"],
            "warmup end after trainer.max_updates=6",
        ),
        (["objective.latency=al"], "choose one of"),
        (
            ["objective=sm2", "lambda=0"],
            "self_modifying with mechanism=mma_il: it has no conf.* mechanism=sm2",
        ),
        (
            ["objective=hmt", "lambda=0"],
            "mechanism=mma_il: each token has one state; take mechanism=hmt",
        ),
        (["mechanism=hmt", "objective=latency_augmented"], "several states; take objective=hmt"),
        (["trainer.max_updates=0"], "trainer.max_updates is 0"),
        (["trainer.patience=0"], "trainer.patience is 0"),
        (["trainer.clip=-1"], "trainer.clip is -1"),
        (["seed=4294967296"], "seed is 4294967296"),
        (["trainer.validate_every=4"], r"max_updates \(6\) is not a multiple of .*validate_every"),
        (["trainer.dal_range=[5,2]"], "dal_range=.5.0, 2.0"),
        (["trainer.dal_range=[2,5]", "trainer.average=2"], "set trainer.average=1"),
        (["trainer.precision=bf"], "trainer.precision is 'bf'"),
        (["trainer.accelerator=tpu"], "trainer.accelerator is 'tpu'"),
        (["trainer.devices=0"], "trainer.devices is 0"),
        (["trainer.patience=1", "trainer.validate_every=2"], "patience=1 .* after 2 updates"),
        (["seed=-1"], "seed is -1"),
        (["model.heads=0"], "model.heads is 0"),
        (["lambda=nan"], "lambda is nan"),
        (["objective.hold=-5"], "objective.hold is -5; it must be at least 0"),
        (["~data.batch_tokens"], "data lacks a value for batch_tokens"),
        (["data.batch_tokens=many"], "data.batch_tokens is 'many'"),
        (["~mechanism.heads"], "mechanism lacks a value for heads"),
        (["+data.subwords.pieces=3"], "data.subwords has no option pieces"),
        (["trainer.dal_range=[1]"], "dal_range"),
        (["optim.lr=0"], "optim.lr is 0"),
        (["ckpt_path=nowhere.ckpt"], "ckpt_path=nowhere.ckpt is not a file"),
        (["init_from=nowhere"], "no checkpoint at nowhere"),
        (["logger=wandb", "logger.mode=maybe"], "logger.mode is 'maybe'"),
        (["data.subwords.size=99999"], "size=99999 .* too large"),
        (["+foo=3"], "the configuration has no option foo"),
        (["~decoding"], "the configuration lacks a value for decoding"),
        (["cache=null"], "^cache is None"),
        (["ckpt_path=true"], "^ckpt_path is True"),
        (["decoding=null"], "^decoding is None"),
        (["~model.name"], "model.name is None; choose one of"),
        (["~teacher.kind"], "teacher.kind is None; choose one of"),
        (["~logger.kind"], "logger.kind is None; choose one of"),
        (["~data.corpus"], "data.corpus is None"),
        (["trainer.dal_range=[nan,3]"], "dal_range"),
        (["data.test=0"], "no test pairs"),
        (["data.batch_tokens=3"], "pairs are longer; raise it to"),
    ],
)
def test_bad_choices_end_in_one_line(overrides, message, tmp_path, cache):
    chosen = [*SMALL, "mechanism=mma_il", "lambda=0.2", f"cache={cache}", *overrides]
    with pytest.raises(UserError, match=message):
        train(configuration("train", *chosen), str(tmp_path))


ANSWERS = [
    ("train.py", ["lambda=0.1", "mechanism=soft"], "decisions have no gradient"),
    ("train.py", ["model={}"], "model={} has no effect"),
    ("train.py", ["data=null"], "data=null has no effect"),
    ("train.py", ["mechanism.nois=1"], "Could not override 'mechanism.nois'"),
    ("train.py", ["mechanism=mma"], "Available options in 'mechanism': emma hmt"),
    ("train.py", ["trainer.dal_range=[1,"], "no viable alternative at input '[1,'"),
    ("train.py", ["hydra/sweeper=ax", "-m"], "Available options in 'hydra/sweeper': basic"),
    ("translate.py", ["hydra.run.dir=/proc/x", "hydra.output_subdir=x"], "/proc/x: No such file"),
    ("align.py", ["data=nothing"], "Available options in 'data': huggingface"),
    ("export.py", ["too=x"], "Could not override 'too'"),
    ("train.py", ["~plugins"], "Key 'plugins' is not in struct"),
    ("train.py", ["data=text"], "Missing mandatory value: root full_key: data.root"),
    ("train.py", ["lambda=${nothing}"], "Interpolation key 'nothing' not found"),
    ("report.py", ["runs=${foo}"], "error: Interpolation key 'foo' not found full_key: runs"),
]


def test_the_command_line_answers_without_a_traceback(tmp_path):
    here = [f"hydra.run.dir={tmp_path}", f"hydra.sweep.dir={tmp_path}"]
    typed = [[name, *here, *options] for name, options, _ in ANSWERS]
    for answer, (_, _, message) in zip(type_in(*typed), ANSWERS, strict=True):
        assert (answer.status, answer.out) == (2, "")
        assert message in answer.err
        assert answer.err.startswith("error: ")
        assert answer.err.count("\n") == 1


def test_a_refused_command_leaves_what_was_there(tmp_path, cache):
    tiny = [*SMALL, f"cache={cache}"]
    mine = tmp_path / "mine"
    mine.mkdir()
    refused = [
        (["name=../x"], "name is '../x'; it must be a name for a folder"),
        (["name=nan"], "name is nan; it must be a name for a folder"),
        (["seed=-1"], "seed is -1"),
        (["name=a", "data.test=0"], "no test pairs"),
        ([f"hydra.run.dir={mine}", "init_from=nowhere"], "no checkpoint at nowhere"),
    ]
    typed = [[ROOT / "train.py", *tiny, *words] for words, _ in refused]
    for answer, (_, message) in zip(type_in(*typed, cwd=tmp_path), refused, strict=True):
        assert answer.status == 2
        assert message in answer.err
        assert answer.err.count("\n") == 1
    assert [*tmp_path.rglob("*")] == [mine]


def test_rejected_runs_of_a_sweep_say_why(tmp_path, cache):
    tiny = [*SMALL, f"cache={cache}", "mechanism=soft", "hydra.sweep.subdir='${hydra:job.num}'"]
    (answer,) = type_in([ROOT / "train.py", "-m", *tiny, "lambda=0.1", "seed=-1,1"], cwd=tmp_path)
    assert answer.status == 2
    folder = tmp_path / "runs" / "verbfinal"
    assert {path.name for path in folder.iterdir()} == {"sweep.csv", "multirun.yaml"}
    with (folder / "sweep.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [(row["run"], row["outcome"], row["tries"]) for row in rows] == [
        ("0", "failed", "0"),
        ("1", "failed", "0"),
    ]
    assert rows[0]["reason"].startswith("seed is -1")
    assert "decisions have no gradient" in rows[1]["reason"]


def test_a_refused_command_leaves_an_earlier_run_as_it_was(trained_once, tmp_path, cache):
    folder = shutil.copytree(trained_once("mechanism=mma_il", "lambda=0.2"), tmp_path / "run")
    (folder / ".hydra").mkdir()
    (folder / ".hydra" / "overrides.yaml").write_text("- lambda=0.2\n")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    chosen = [f"hydra.run.dir={folder}", *SMALL, f"cache={cache}", "data.test=0"]
    (answer,) = type_in(["train.py", *chosen])
    assert answer.status == 2
    after = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    unlocked = {path for path in before if not path.name.startswith(".lock")}
    assert {path: after[path] for path in unlocked} == {path: before[path] for path in unlocked}
    assert after.keys() == before.keys()


def test_the_shell_sees_the_status_and_no_traceback(tmp_path):
    command = [sys.executable, "report.py", "runs=${foo}", f"hydra.run.dir={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: Interpolation key 'foo' not found full_key: runs")
    assert done.stderr.count("\n") == 1
