"""Choices that no run can have end in one line, before anything is trained."""

from __future__ import annotations

import csv

import pytest

from commands import type_in
from simulmt.errors import UserError
from simulmt.programs.plain import plain
from simulmt.programs.run_spec import RunSpec
from simulmt.programs.train import train
from small_runs import ROOT, SMALL, configuration

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["mechanism=soft"], "lambda=0.2 .* mechanism=soft, whose decisions have no gradient"),
        (["mechanism.noise=nan"], "noise is nan"),
        (["mechanism.threshold=1e-320"], "mechanism.threshold is .*; it must be greater"),
        (["mechanism.schedule=[wait_k]"], "mechanism.schedule is .'wait_k'.; choose one of"),
        (["decoding.beam=5"], "decoding.beam=5 with mechanism=mma_il: the mechanism writes before"),
        (["+mechanism.chunks=3"], "no option chunks; its options are: noise, energy_bias"),
        (["model.dim=130", "model.heads=4"], "model.dim is 130"),
        (["model.encoder=bidirectional"], "mechanism=mma_il streams"),
        (["objective.hold=6"], "trainer.max_updates=6 .* objective.hold"),
        (
            ["objective=sm2", "lambda=0"],
            "self_modifying with mechanism=mma_il: it has no conf.* mechanism=sm2",
        ),
        (
            ["objective=hmt", "lambda=0"],
            "mechanism=mma_il: each token has one state; take mechanism=hmt",
        ),
        (["mechanism=hmt", "objective=latency_augmented"], "several states; take objective=hmt"),
        (["trainer.validate_every=4"], r"max_updates \(6\) is not a multiple of .*validate_every"),
        (["trainer.dal_range=[2,5]", "trainer.average=2"], "trainer.average=1"),
        (
            ["trainer.patience=1", "trainer.validate_every=2", "objective.warmup=4"],
            "trainer.patience=1 .* after 4 updates",
        ),
        (["ckpt_path=nowhere.ckpt"], "ckpt_path=nowhere.ckpt"),
        (["init_from=nowhere"], "no checkpoint at init_from=nowhere: .*simulmt import"),
        (["data.subwords.model=nowhere"], "data.subwords.model=nowhere does not exist"),
        (["data.subwords.size=99999"], "size=99999 .* too high"),
        (["~decoding"], "the configuration lacks a value for decoding"),
        (["mechanism=wait_k", "lambda_var=0.1"], "lambda_var=0.1 with mechanism=wait_k"),
        (["decoding=null"], "^decoding has no value"),
        (["~teacher.kind"], "teacher.kind is None; choose one of"),
        (["data.test=0"], "the test split is empty"),
        (["data.history=9", "data.told=0"], "told=0 and data.history=9 without documents: set"),
        (["model.history=9"], "data.history=0, but the model sees 9 subwords"),
        (
            ["data.documents=true", "data.history=9", "model.history=0"],
            "data.history=9, but the model sees no subwords of earlier text: set data.history=0",
        ),
        (["init_partial=true"], "init_partial=True without another run: give init_from=RUN"),
        (["trainer.dal_range=[5,2]"], r"dal_range is \[5, 2\]; it must be \[least,most\]"),
        (["data.documents=true", "data.join=[9,1]"], r"is \[9, 1\]; it must be \[least,most\]"),
        (["+objective.terms.lag=1"], "has weights of lag, but its losses are none; give each"),
        (
            ["mechanism=itst", "objective=latency_augmented", "lambda=0"],
            "weights of none, but its losses are information_lag",
        ),
        (["mechanism=sm2", "lambda=0", "teacher=joint"], "self_modifying takes no teacher"),
        (["mechanism=hmt"], "lambda=0.2, but objective.name=marginal_likelihood has no lambda"),
        (["data.subwords.kind=word"], "data.subwords.kind is 'word'; it must be"),
        (["data.batch_tokens=3"], "pairs are longer; raise it to"),
    ],
)
def test_bad_choices_end_in_one_line(overrides, message, tmp_path, cache):
    chosen = [*SMALL, "mechanism=mma_il", "lambda=0.2", f"cache={cache}", *overrides]
    with pytest.raises(UserError, match=message):
        train(configuration("train", *chosen), str(tmp_path))


ANSWERS = [
    ("train.py", ["lambda=0.1", "mechanism=soft"], "decisions have no gradient"),
    ("train.py", ["mechanism=mma"], "Available options in 'mechanism': emma hmt"),
    ("train.py", ["trainer.dal_range=[1,"], "'trainer.dal_range=[1,': write KEY=VALUE"),
    ("translate.py", ["hydra.run.dir=/proc/x", "hydra.output_subdir=x"], "/proc/x: No such file"),
    ("train.py", ["data=text"], "data.root has no value: set data.root=VALUE"),
    ("train.py", ["data=text", "data.root=x", "data.source=a", "data.target=b"], "set data.root"),
    ("train.py", ["data=text", "data.root=.", "data.source=a", "data.target=a"], "two languages"),
    ("train.py", ["hydra.run.dir="], "hydra.run.dir= gives no value"),
    ("evaluate.py", ["checkpoint="], "checkpoint= gives no value"),
    ("report.py", ["runs=a,b"], "error: runs=a,b: runs takes one value"),
    ("report.py", ["-m", "runs=a"], "error: -m is for train and evaluate: leave it out"),
    (
        "train.py",
        ["trainer.max_update=9"],
        "max_update is not an option; choose max_updates",
    ),
    (
        "train.py",
        ["mechanism={k:3}"],
        "mechanism.k is not an option of mma_il; choose one of name, schedule",
    ),
    ("translate.py", ["k=3"], "k is not an option; choose dial.k"),
    ("report.py", ["runs=null"], "runs has no value: set runs=VALUE"),
    ("train.py", ["lambda =0.2"], "'lambda =0.2': write KEY=VALUE without spaces"),
    ("train.py", ["data.join=[5,9]"], "data.join=[5,9] without documents: set data.documents=true"),
    ("train.py", ["RUN"], "'RUN': write KEY=VALUE"),
    ("train.py", ["init_from=~/runs/a"], "a value with characters other than ASCII letters"),
    ("train.py", ["hydra.job.chdir=true"], "hydra.job.chdir=true would change what relative"),
    ("report.py", ["runs=${foo}"], "error: Interpolation key 'foo' not found full_key: runs"),
]


def test_the_command_line_answers_in_one_line_and_leaves_what_was_there(tmp_path, cache):
    tiny, mine = [*SMALL, f"cache={cache}"], tmp_path / "mine"
    mine.mkdir()
    refused = [
        ("train.py", [*tiny, "name=../x"], "name is '../x'"),
        ("train.py", [*tiny, "name=a", "data.test=0"], "the test split is empty"),
        ("train.py", [*tiny, f"hydra.run.dir={mine}", "init_from=nowhere"], "at init_from=nowhere"),
    ]
    here = [f"hydra.run.dir={tmp_path}", f"hydra.sweep.dir={tmp_path}"]
    asked = [*refused, *((name, [*here, *options], said) for name, options, said in ANSWERS)]
    sweep = ["mechanism=soft", "hydra.sweep.subdir='${hydra:job.num}'", "lambda=0.1", "seed=-1,1"]
    typed = [[ROOT / name, *options] for name, options, _ in asked]
    *answers, swept = type_in(*typed, [ROOT / "train.py", "-m", *tiny, *sweep], cwd=tmp_path)
    for answer, (_, _, message) in zip(answers, asked, strict=True):
        assert answer.status == 2
        assert message in answer.err
        assert answer.err.startswith("error: ")
        assert answer.err.count("\n") == 1
    assert swept.status == 2
    folder = tmp_path / "runs" / "verbfinal"
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {folder / "sweep.csv", folder / "multirun.yaml"}
    with (folder / "sweep.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [(row["outcome"], row["tries"]) for row in rows] == [("failed", "0")] * 2
    assert rows[0]["reason"].startswith("seed is -1")
    assert "mechanism=soft" in rows[1]["reason"]


def test_only_a_process_that_starts_the_others_counts_its_cores():
    words = ["trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=999"]
    plan = RunSpec.of(plain(configuration("train", *words))).plan
    plan.check_machine(starts_ranks=False)  # srun gives each of them cores of its own
    with pytest.raises(UserError, match=r"trainer.devices=999, but \d+ cores can be used here"):
        plan.check_machine(starts_ranks=True)


def test_a_sweep_with_a_misspelt_choice_leaves_nothing(tmp_path):
    words = ["-m", "mechanism=mma_il,milkk", "lambda=0.0,0.2"]
    (answer,) = type_in([ROOT / "train.py", *words], cwd=tmp_path)
    assert (answer.status, answer.err.count("\n")) == (2, 1)
    assert "Could not find 'mechanism/milkk'" in answer.err
    assert not [*tmp_path.iterdir()]
