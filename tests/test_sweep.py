"""Sweeps: what is skipped, resumed and tried again, where the runs are made up."""

from __future__ import annotations

import csv
import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from hydra_plugins.hydra_optuna_sweeper.config import Direction
from omegaconf import DictConfig, OmegaConf

from simulmt.data.manifest import Manifest, SplitRecord, SubwordsRecord
from simulmt.data.store import digest_of_file
from simulmt.errors import UserError
from simulmt.files.run_directory import MANIFEST, Provenance
from simulmt.programs import sweep
from simulmt.programs.outcome import (
    SWEEP,
    Outcome,
    SweepEnd,
    find_outcomes,
    write_outcome,
    write_table,
)
from simulmt.programs.plain import plain
from simulmt.programs.run_spec import RunSpec
from simulmt.system.disk import write_json
from simulmt.training.callbacks import check_same
from simulmt.training.loggers import MetricsFile
from simulmt.training.resume import alone_in, differences, read_state
from small_runs import configuration


def leave(folder: Path, config: DictConfig, *, scores: bool) -> None:
    """What a run leaves: a checkpoint that says what it was trained with, and maybe its scores."""
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    (folder / ".simulmt").touch()
    passport = {
        "config": plain(config),
        "subwords": torch.zeros(1, dtype=torch.uint8),
        "manifest": {},
        "needs": {},
    }
    checkpoint = {"state_dict": {}, "simulmt": passport, "global_step": 4}
    torch.save(checkpoint, folder / "checkpoints" / "last.ckpt")
    write_json(folder / "config.json", plain(config))
    metrics = MetricsFile(folder, None)
    for step, value in ((1, 3.5), (3, 7.25), (5, 6.0)):
        metrics.log_metrics({"train/loss": 1.0}, step - 1)
        metrics.log_metrics({"valid/selection": value}, step)
    if scores:
        (folder / "instances.log").write_text("")
        (folder / "test_scores.json").write_text("{}")


class Child:
    """Stands for the process that trains: what it leaves, try by try."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = [*statuses]
        self.resumed: list[str] = []
        self.config = configuration("train")

    def __call__(self, folder: Path, words: Sequence[str]) -> tuple[int, str]:
        self.resumed.append("last" if "ckpt_path=last" in words else "")
        status = self.statuses.pop(0)
        if status != 2:
            leave(folder, self.config, scores=status in {0, -6})
        return status, f"ended with {status}"


@pytest.fixture(autouse=True)
def records(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(SWEEP, str(tmp_path / ".sweep"))
    return tmp_path / ".sweep"


@pytest.fixture
def child(monkeypatch):
    def install(*statuses: int) -> Child:
        made = Child(*statuses)
        monkeypatch.setattr(sweep, "_start", made)
        return made

    return install


def ended(folder: Path, config: DictConfig) -> tuple[Outcome, float]:
    value = sweep.sweep_run(config, folder, 3, [])
    return find_outcomes(Path(os.environ[SWEEP]))[3], value


def test_a_new_run_is_trained_and_then_skipped(tmp_path, child):
    config, started = configuration("train"), child(0)
    outcome, value = ended(tmp_path, config)
    assert (outcome.outcome, outcome.reason, outcome.tries) == ("trained", "", 1)
    assert (started.resumed, value) == ([""], 7.25)
    same = ["trainer.progress=false", "trainer.log_every=7", "sweep.retries=0"]
    quiet = configuration("train", *same, "logger=wandb", "cache=elsewhere")
    outcome, again = ended(tmp_path, quiet)
    assert (outcome.outcome, outcome.tries, again) == ("skipped", 0, value)


@pytest.mark.parametrize("gone", [False, True])
def test_a_run_on_other_text_is_trained_again(tmp_path, child, gone):
    for name in ("train", "valid", "test"):
        for side in ("de", "en"):
            (tmp_path / f"{name}.{side}").write_text(f"{name} {side}\n")
    files = [f"data.root={tmp_path}", "data.source=de", "data.target=en", f"cache={tmp_path / 'c'}"]
    started, run = child(0), tmp_path / "run"
    config = started.config = configuration("train", "data=text", *files)
    leave(run, config, scores=True)
    splits = RunSpec.of(plain(config)).data.read().splits
    records = {name: SplitRecord(1, {}, *split.sha256) for name, split in splits.items()}
    write_json(run / MANIFEST, Manifest("x", "de", "en", "", SubwordsRecord("", 9), records))
    assert ended(run, config)[0].outcome == "skipped"
    (tmp_path / "train.en").write_text("corrected\n")
    if gone:
        (tmp_path / "train.de").unlink()
    outcome, _ = ended(run, config)
    expected = ("skipped", "already finished") if gone else ("trained", "the text changed: train")
    assert (outcome.outcome, outcome.reason) == expected
    assert started.resumed == [""] * (not gone)


def test_a_half_trained_run_is_resumed(tmp_path, child):
    config, started = configuration("train"), child(0)
    leave(tmp_path, config, scores=False)
    outcome, _ = ended(tmp_path, config)
    assert (outcome.outcome, outcome.reason) == ("resumed", "from update 4")
    assert started.resumed == ["last"]


def test_a_failure_is_tried_again_from_where_it_failed(tmp_path, child):
    config, started = configuration("train"), child(-9, 0)
    outcome, value = ended(tmp_path, config)
    assert (outcome.outcome, outcome.tries, value) == ("trained", 2, 7.25)
    assert "try 1 failed: ended with -9" in outcome.reason
    assert started.resumed == ["", "last"]


def test_two_failures_are_one_too_many_and_the_next_sweep_tries_again(tmp_path, child):
    config = configuration("train")
    child(1, 1)
    outcome, value = ended(tmp_path, config)
    assert (outcome.outcome, outcome.tries, value) == ("failed", 2, sweep.FAILED)
    assert "try 2 failed: ended with 1" in outcome.reason
    child(0)
    assert ended(tmp_path, config)[0].outcome == "resumed"


def test_what_fails_after_it_has_begun_was_tried(tmp_path, child, monkeypatch):
    child(2)
    begun = iter([0, 1])
    monkeypatch.setattr(sweep, "_begun_at", lambda folder: next(begun))
    outcome, _ = ended(tmp_path, configuration("train"))
    assert (outcome.outcome, outcome.tries) == ("failed", 1)


def test_what_is_refused_is_not_tried_again(tmp_path, child):
    config, started = configuration("train"), child(2)
    outcome, _ = ended(tmp_path, config)
    assert (outcome.outcome, outcome.reason, outcome.tries) == ("failed", "ended with 2", 0)
    outcome, _ = ended(tmp_path, configuration("train", "mechanism=soft", "lambda=0.2"))
    assert "decisions have no gradient" in outcome.reason
    assert len(started.resumed) == 1, "seen before any process is started"
    outcome, _ = ended(tmp_path, configuration("train", "sweep.retries=-1"))
    assert "sweep.retries is -1" in outcome.reason


def test_only_the_same_settings_count_as_finished(tmp_path):
    config = configuration("train", "lambda=0.2")
    leave(tmp_path, config, scores=True)
    assert read_state(tmp_path, plain(config)).kind == "finished"
    longer = configuration("train", "lambda=0.2", "trainer.max_updates=800")
    state = read_state(tmp_path, plain(longer))
    assert (state.kind, state.reason) == (
        "new",
        "settings changed: trainer.max_updates was 1600, is 800",
    )
    changed = differences({"a": 1, "gone": 1, "cache": 1}, {"a": 1, "came": 2})
    assert changed == ["gone was 1, is None", "came was None, is 2"]


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("init_from={}", "init_sha256"),
        ("teacher=pretrained teacher.checkpoint={}", "teacher_sha256"),
        ("teacher=stops teacher.file={}", "teacher_sha256"),
    ],
)
def test_retrained_weights_and_other_stops_are_other_settings(option, field, tmp_path):
    start, folder = tmp_path / "start.ckpt", tmp_path / "run"
    start.write_bytes(b"weights")
    config = configuration("train", *option.format(start).split())
    leave(folder, config, scores=True)
    for digest, kind in ((digest_of_file(start), "finished"), ("that of other weights", "new")):
        record = Provenance("", "", None, {}, "", "", **{field: digest})
        write_json(folder / "provenance.json", record)
        assert read_state(folder, plain(config)).kind == kind


def test_half_written_files_are_not_taken_for_whole(tmp_path):
    config = configuration("train")
    leave(tmp_path, config, scores=True)
    (tmp_path / "test_scores.json").write_text('{"quality": ')
    assert read_state(tmp_path, plain(config)).kind == "half"
    last = tmp_path / "checkpoints" / "last.ckpt"
    last.write_bytes(last.read_bytes()[:500])
    state = read_state(tmp_path, plain(config))
    assert state.kind == "new"
    assert "is not a checkpoint, or is corrupt" in state.reason
    metrics = tmp_path / "metrics.csv"
    metrics.write_bytes(b"step,loss\r\n0,1\r\n1,2\r\n1")  # of 12,...
    MetricsFile(tmp_path, 5).log_metrics({"loss": 3.0}, 2)
    assert metrics.read_text().split() == ["step,loss", "0,1", "1,2", "2,3"]


def test_two_do_not_train_in_one_directory(tmp_path):
    who = f"process {os.getpid()} on {socket.gethostname()} is working on"
    with alone_in(tmp_path), pytest.raises(UserError, match=re.escape(who)), alone_in(tmp_path):
        pass
    with alone_in(tmp_path):
        pass


def test_a_run_that_another_sweep_trains_is_postponed_and_its_state_read_under_the_lock(
    tmp_path, child, records, monkeypatch, capsys
):
    run, words = tmp_path / "run", ["lambda=0.2"]
    config, started = configuration("train", *words), child()
    with alone_in(run):
        assert sweep.sweep_run(config, run, 0, words, waits=False) == sweep.FAILED
        leave(run, config, scores=True)
    outcome = find_outcomes(records)[0]
    assert outcome.outcome == "busy"
    assert f"process {os.getpid()} on {socket.gethostname()}" in outcome.reason
    monkeypatch.setattr(sweep, "compose", lambda verb, given: configuration(verb, *given))
    sweep.finish_postponed()
    outcome = find_outcomes(records)[0]
    assert (outcome.outcome, outcome.reason) == ("skipped", "already finished")
    assert not started.resumed
    assert "lambda-0.2: busy: process" in capsys.readouterr().out


def test_the_table_has_every_run_of_the_sweep(tmp_path, records):
    write_outcome(10, Outcome("failed", "[a, 'b']", 2, 1.5, str(tmp_path / "a")))
    write_outcome(9, Outcome("trained", "", 1, 9.0, str(tmp_path / "b")))
    found = [*find_outcomes(records).values()]
    with write_table(found, tmp_path).open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [row["run"] for row in rows] == ["b", "a"]
    assert rows[1]["reason"] == "[a, 'b']"


def test_a_run_of_a_sweep_is_shown_by_what_the_sweep_varies(monkeypatch):
    """The constants of the command are in no name, but the folder keeps them."""
    monkeypatch.setenv("SIMULMT_COMMAND", "train.py -m data=text 'data.root=/a b' lambda=0.1,0.2")
    words = ["data=text", "data.root=/a b"]
    names = [sweep.shown_name([*words, f"lambda={value}"], Path("x")) for value in (0.1, 0.2)]
    assert names == ["lambda-0.1", "lambda-0.2"]
    assert sweep.shown_name(words, Path("runs/x")) == "x", "a sweep of one run"


def test_ranks_that_were_told_something_else_stop():
    same = {"lambda": 0.1, "seed": 1}
    check_same([same, {**same}])
    message = r"configurations: they differ in lambda, optim\.lr\. Start all"
    with pytest.raises(UserError, match=message):
        check_same([same, {**same, "lambda": 0.2}, {**same, "optim.lr": 1.0}])


@pytest.mark.parametrize("direction", ["minimize", Direction.minimize, ["maximize", "minimize"]])
def test_a_search_for_the_lowest_value_is_rejected(direction, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv(SWEEP, "")
    parts = {"sweep": {"dir": str(tmp_path)}, "sweeper": {"direction": direction}}
    with pytest.raises(SystemExit) as ended:
        SweepEnd().on_multirun_start(OmegaConf.create({"hydra": parts}))
    assert ended.value.code == 2
    assert "set hydra.sweeper.direction=maximize" in capsys.readouterr().err


def test_a_sweep_without_runs_replaces_no_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(SWEEP, str(tmp_path / "records"))
    (tmp_path / "sweep.csv").write_text("of an earlier sweep")
    config = OmegaConf.create({"hydra": {"sweep": {"dir": str(tmp_path)}}})
    with pytest.raises(SystemExit) as ended:
        SweepEnd().on_multirun_end(config)
    assert ended.value.code == 2
    assert "no run fits the sweep" in capsys.readouterr().err
    assert (tmp_path / "sweep.csv").read_text() == "of an earlier sweep"


def test_runs_outside_the_folder_of_a_sweep_are_reported_where_they_are(
    tmp_path, monkeypatch, records
):
    reported = []
    monkeypatch.setattr("simulmt.analysis.report.report", reported.append)
    monkeypatch.setattr("simulmt.programs.outcome.compose", configuration)
    for number, place in enumerate(("deen/a", "deen/b", "ende/a")):
        write_outcome(number, Outcome("trained", "", 1, 1.0, str(tmp_path / place)))
    (tmp_path / "verbfinal").mkdir()
    (tmp_path / "verbfinal" / "sweep.csv").write_text("of an earlier sweep")
    SweepEnd().on_multirun_end(
        OmegaConf.create({"hydra": {"sweep": {"dir": str(tmp_path / "verbfinal")}}})
    )
    assert [Path(given["runs"]).name for given in reported] == ["deen", "ende"]
    assert (tmp_path / "verbfinal" / "sweep.csv").read_text() == "of an earlier sweep"
    assert "../ende/a" in (tmp_path / "deen" / "sweep.csv").read_text()


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError("x"), 1), (OSError(28, "No space left", "a file"), 2)]
)
def test_a_sweep_that_cannot_end_has_failed(error, status, tmp_path, monkeypatch):
    """Hydra makes a warning of an exception, but not of an exit."""
    monkeypatch.setenv(SWEEP, str(tmp_path))
    monkeypatch.setattr("simulmt.programs.sweep.finish_postponed", Mock(side_effect=error))
    config = OmegaConf.create({"hydra": {"sweep": {"dir": str(tmp_path)}}})
    with pytest.raises(SystemExit) as ended:
        SweepEnd().on_multirun_end(config)
    assert ended.value.code == status


@pytest.mark.parametrize(
    ("validations", "expected"),
    [
        (["-1080", "30.5", "nan", "29"], 30.5),
        (["inf", "12"], 12),
        (["nan"], -10_000),
        ([], -10_000),
    ],
)
def test_a_search_gets_the_best_validation_of_a_run(tmp_path, validations, expected):
    rows = "".join(f"{step},{value}\n9,\n" for step, value in enumerate(validations))
    (tmp_path / "metrics.csv").write_text(f"step,valid/selection\n{rows}")
    assert sweep.value(tmp_path) == expected
