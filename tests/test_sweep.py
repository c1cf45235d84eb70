"""Sweeps: what is skipped, resumed and tried again; kills at any moment change no score."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from simulmt.decoding.instance import Instance
from simulmt.errors import UserError
from simulmt.programs import sweep
from simulmt.programs.outcome import (
    SWEEP_ID,
    Outcome,
    find_outcomes,
    outcome_table,
    read_outcome,
    write_outcome,
    write_table,
)
from simulmt.programs.plain import plain
from simulmt.run_directory import clear, write_json
from simulmt.scoring.score import score
from simulmt.training.callbacks import selection
from simulmt.training.loggers import MetricsFile
from simulmt.training.ranks import TERMINATED, refuse_differences
from simulmt.training.resume import alone_in, differences, make_room, read_state
from test_runs import TINY

ROOT = Path(__file__).parents[1]
SMALL = [*TINY, "trainer.max_updates=8", "trainer.validate_every=2"]
MANY = ["trainer.max_updates=60", "trainer.validate_every=4"]


def configuration(*overrides: str) -> DictConfig:
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return compose("train", [*overrides])


def prepare(folder: Path, *overrides: str) -> DictConfig:
    """What Hydra does before a job."""
    config = configuration(*overrides)
    (folder / ".hydra").mkdir(parents=True, exist_ok=True)
    OmegaConf.save(config, folder / ".hydra" / "config.yaml")
    return config


def leave(folder: Path, config: DictConfig, *, scores: bool) -> None:
    """What a run leaves: a checkpoint that says what it was trained with, and maybe its scores."""
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    passport = {"config": plain(config), "subwords": torch.zeros(1), "manifest": {}}
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

    def __call__(self, folder: Path, ckpt_path: str) -> int:
        self.resumed.append(ckpt_path)
        status = self.statuses.pop(0)
        config = OmegaConf.load(folder / ".hydra" / "config.yaml")
        assert isinstance(config, DictConfig)
        if status != 2:
            leave(folder, config, scores=status == 0)
        if status > 0:
            write_outcome(folder, Outcome("failed", f"ended with {status}"))
        return status


@pytest.fixture
def child(monkeypatch):
    def install(*statuses: int) -> Child:
        made = Child(*statuses)
        monkeypatch.setattr(sweep, "_start", made)
        return made

    return install


def ended(folder: Path, config: DictConfig) -> tuple[Outcome, float]:
    value = sweep.sweep_run(config, folder, 3)
    outcome = read_outcome(folder)
    assert outcome is not None
    return outcome, value


def test_a_new_run_is_trained_and_then_skipped(tmp_path, child):
    config, started = prepare(tmp_path), child(0)
    outcome, value = ended(tmp_path, config)
    assert (outcome.outcome, outcome.reason, outcome.tries) == ("trained", "", 1)
    assert (started.resumed, value) == ([""], 7.25)
    same = ["trainer.progress=false", "trainer.log_every=7", "sweep.retries=0"]
    quiet = prepare(tmp_path, *same, "logger=wandb", "cache=elsewhere")
    outcome, again = ended(tmp_path, quiet)
    assert (outcome.outcome, outcome.tries, again) == ("skipped", 0, value)


def test_a_half_trained_run_is_resumed(tmp_path, child):
    config, started = prepare(tmp_path), child(0)
    leave(tmp_path, config, scores=False)
    outcome, _ = ended(tmp_path, config)
    assert (outcome.outcome, outcome.reason) == ("resumed", "from update 4")
    assert started.resumed == ["last"]


def test_a_failure_is_tried_again_from_where_it_failed(tmp_path, child):
    config, started = prepare(tmp_path), child(-9, 0)
    outcome, value = ended(tmp_path, config)
    assert (outcome.outcome, outcome.tries, value) == ("trained", 2, 7.25)
    assert "try 1 failed: killed by SIGKILL (out of memory?)" in outcome.reason
    assert started.resumed == ["", "last"]


def test_two_failures_are_one_too_many_and_the_next_sweep_tries_again(tmp_path, child):
    config = prepare(tmp_path)
    child(1, 1)
    outcome, value = ended(tmp_path, config)
    assert (outcome.outcome, outcome.tries, value) == ("failed", 2, sweep.FAILED)
    assert "try 2 failed: ended with 1" in outcome.reason
    child(0)
    assert ended(tmp_path, config)[0].outcome == "resumed"


def test_what_is_refused_is_not_tried_again(tmp_path, child):
    config, started = prepare(tmp_path), child(2)
    outcome, _ = ended(tmp_path, config)
    assert (outcome.outcome, outcome.reason, outcome.tries) == ("failed", "ended with 2", 1)
    outcome, _ = ended(tmp_path, prepare(tmp_path, "mechanism=soft", "lambda=0.2"))
    assert "its schedule is fixed" in outcome.reason
    assert len(started.resumed) == 1, "seen before any process is started"
    outcome, _ = ended(tmp_path, prepare(tmp_path, "sweep.retries=-1"))
    assert "sweep.retries is -1" in outcome.reason


def test_a_sweep_that_restarts_trains_all_anew(tmp_path, child):
    config, started = prepare(tmp_path, "sweep.restart=true"), child(0)
    leave(tmp_path, config, scores=True)
    assert ended(tmp_path, config)[0].outcome == "trained"
    assert started.resumed == [""]


def test_an_exit_gone_wrong_after_the_last_file_is_no_failure(tmp_path, child):
    config = prepare(tmp_path)
    started = child(0)

    def crash(folder: Path, ckpt_path: str) -> int:
        started(folder, ckpt_path)
        return -6

    sweep._start = crash  # the fixture puts it back
    outcome, _ = ended(tmp_path, config)
    assert (outcome.outcome, outcome.tries) == ("trained", 1)
    assert "killed by SIGABRT" in outcome.reason


def test_only_the_same_settings_count_as_finished(tmp_path):
    config = configuration("lambda=0.2")
    leave(tmp_path, config, scores=True)
    assert read_state(tmp_path, plain(config)).kind == "finished"
    state = read_state(tmp_path, plain(configuration("lambda=0.2", "trainer.max_updates=800")))
    assert (state.kind, state.reason) == (
        "new",
        "settings changed: trainer.max_updates was 2400, is 800",
    )
    changed = differences({"a": 1, "gone": 1, "cache": 1}, {"a": 1, "came": 2})
    assert changed == ["gone was 1, is None", "came was None, is 2"]


def test_half_written_files_are_not_taken_for_whole(tmp_path):
    config = configuration()
    leave(tmp_path, config, scores=True)
    (tmp_path / "test_scores.json").write_text('{"quality": ')
    assert read_state(tmp_path, plain(config)).kind == "half"
    last = tmp_path / "checkpoints" / "last.ckpt"
    last.write_bytes(last.read_bytes()[:500])
    state = read_state(tmp_path, plain(config))
    assert state.kind == "new"
    assert "no readable checkpoint" in state.reason
    metrics = tmp_path / "metrics.csv"
    metrics.write_bytes(b"step,loss\r\n0,1\r\n1,2\r\n1")  # of 12,...
    MetricsFile(tmp_path, 5).log_metrics({"loss": 3.0}, 2)
    assert metrics.read_text().split() == ["step,loss", "0,1", "1,2", "2,3"]


def test_no_checkpoint_is_left_but_scores(tmp_path):
    config = configuration()
    leave(tmp_path, config, scores=True)
    (tmp_path / "checkpoints" / "last.ckpt").unlink()
    assert read_state(tmp_path, plain(config)).kind == "finished"
    assert read_state(tmp_path / "nowhere", plain(config)).kind == "new"


def test_what_is_trained_again_has_no_results_meanwhile(tmp_path):
    config = configuration()
    leave(tmp_path, config, scores=True)
    (tmp_path / "checkpoints" / "average.ckpt").touch()
    for step in (2, 4):
        (tmp_path / "checkpoints" / f"step-{step:07d}.ckpt").touch()
    (tmp_path / "checkpoints" / "best.ckpt.17.tmp").touch()
    make_room(tmp_path, tmp_path / "checkpoints" / "last.ckpt", step=2)
    left = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert left == {"last.ckpt", "step-0000002.ckpt"}
    assert read_state(tmp_path, plain(config)).kind == "half"
    leave(tmp_path, config, scores=True)
    write_outcome(tmp_path, Outcome("skipped"))
    clear(tmp_path)
    assert not [*tmp_path.iterdir()]


def test_two_do_not_train_in_one_directory(tmp_path):
    busy = pytest.raises(UserError, match="another process is training in")
    with alone_in(tmp_path), busy, alone_in(tmp_path):
        pass
    with alone_in(tmp_path):
        pass


def test_the_table_is_that_of_one_sweep(tmp_path):
    made = [
        Outcome("failed", "[a, 'b']", 2, 1.5, "now", 1),
        Outcome("trained", "", 1, 9.0, "now", 0),
        Outcome("skipped", "", 0, 0.0, "before", 0),
    ]
    for name, outcome in zip("abc", made, strict=True):
        (tmp_path / name).mkdir()
        write_outcome(tmp_path / name, outcome)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "outcome.json").write_text("{")
    found = find_outcomes(tmp_path, "now")
    assert [(one.folder, one.outcome) for one in found] == [("b", "trained"), ("a", "failed")]
    assert outcome_table(found).row_count == 2
    write_table(found, tmp_path / "sweep.csv")
    with (tmp_path / "sweep.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [row["run"] for row in rows] == ["b", "a"]
    assert rows[1]["reason"] == "[a, 'b']"


def test_ranks_that_were_told_something_else_stop():
    same = {"lambda": 0.1, "seed": 1}
    refuse_differences([same, {**same}])
    message = "configurations: lambda is 0.1 on rank 0, 0.2 on rank 1"
    with pytest.raises(UserError, match=message):
        refuse_differences([same, {**same, "lambda": 0.2}])


def test_a_failed_run_is_worth_less_than_any_other():
    worst = score([Instance(0, "ein Satz", "a sentence", "", ())])
    assert selection(worst, (0, 5), in_force=False) > sweep.FAILED


# Whole sweeps, as typed.


def command(folder: Path, *arguments: str) -> list[str]:
    cache = folder.parent / "cache"
    return [
        *(sys.executable, "train.py", "-m", *SMALL, f"cache={cache}"),
        *(f"hydra.sweep.dir={folder}", "hydra.sweep.subdir='${hydra:job.num}'", *arguments),
    ]


def run(folder: Path, *arguments: str, status: int = 0) -> dict[str, str]:
    """Sweep; the outcomes by run."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop(SWEEP_ID, None)
    done = subprocess.run(
        command(folder, *arguments),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    with (folder / "sweep.csv").open(newline="") as file:
        return {row["run"]: row["outcome"] for row in csv.DictReader(file)}


def results(folder: Path) -> dict[str, bytes]:
    """All that must not depend on how often a sweep was interrupted."""
    names = ("test_scores.json", "instances.log")
    found = {f"{p.parent.name}/{n}": p.read_bytes() for n in names for p in folder.glob(f"*/{n}")}
    for path in folder.glob("*/metrics.csv"):
        with path.open(newline="") as file:
            rows = [
                {k: v for k, v in r.items() if "tokens_per_s" not in k}
                for r in csv.DictReader(file)
            ]
        found[f"{path.parent.name}/metrics"] = json.dumps(rows).encode()
    return found


GRID = ["mechanism=milk,mma_il", "lambda=0.2", *MANY]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A sweep that nothing interrupted."""
    folder = tmp_path_factory.mktemp("sweeps") / "whole"
    assert run(folder, *GRID) == {"0": "trained", "1": "trained"}
    return folder


def kill_at(folder: Path, rows: int, arguments: list[str]) -> None:
    """Start a sweep, and kill it once the metrics of its runs have so many rows together."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command(folder, *arguments), cwd=ROOT, env=environment, stdout=subprocess.DEVNULL
    ) as process:
        while process.poll() is None:
            time.sleep(random.uniform(0, 0.2))
            files = [path.read_bytes() for path in folder.glob("*/metrics.csv")]
            if sum(file.count(b"\n") for file in files) >= rows:
                break
        process.send_signal(signal.SIGKILL)


@pytest.mark.slow
def test_kills_at_random_moments_change_nothing(whole, tmp_path):
    broken = tmp_path / "broken"
    moments = sorted(random.sample(range(1, 120), 3))
    for rows, launcher in zip(moments, ("basic", "joblib", "basic"), strict=True):
        print(f"killed at {rows} rows")
        kill_at(broken, rows, [*GRID, f"hydra/launcher={launcher}"])
    assert set(run(broken, *GRID)) == {"0", "1"}
    assert results(broken) == results(whole)
    for table in ("curves.csv", "significance.csv"):
        assert (broken / table).read_bytes() == (whole / table).read_bytes()
    assert set(run(broken, *GRID).values()) == {"skipped"}


@pytest.mark.slow
def test_patience_that_has_ended_stays_ended(tmp_path):
    """Killed while its test set was decoded, a run that had stopped early does not train on."""
    impatient = ["mechanism=soft", *MANY, "trainer.patience=2", "optim.lr=1e-9"]
    folder = tmp_path / "sweep"
    run(folder, *impatient)
    before = results(folder)
    (folder / "0" / "test_scores.json").unlink()
    assert run(folder, *impatient) == {"0": "resumed"}
    assert results(folder) == before
    record = json.loads((folder / "0" / "training.json").read_text())
    assert record["updates"] == record["resumed_at"] < 60


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local"])
def test_runs_at_the_same_time_score_as_in_turn(launcher, whole, tmp_path):
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.partition('_')[0]}_launcher")
    folder = tmp_path / "sweep"
    assert set(run(folder, *GRID, f"hydra/launcher={launcher}").values()) == {"trained"}
    assert results(folder) == results(whole)


@pytest.mark.slow
def test_several_processes_in_a_sweep_score_as_alone(tmp_path):
    ddp = ["trainer=ddp", "trainer.accelerator=cpu", *SMALL, "mechanism=mma_il"]
    folder, alone = tmp_path / "sweep", tmp_path / "alone"
    assert set(run(folder, *ddp, "lambda=0.1,0.2").values()) == {"trained"}
    for number, weight in enumerate(("0.1", "0.2")):
        here = alone / str(number)
        one = [*ddp, f"lambda={weight}", f"cache={tmp_path / 'cache'}", f"hydra.run.dir={here}"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run(
            [sys.executable, "train.py", *one], cwd=ROOT, env=environment, check=True, timeout=300
        )
        assert json.loads((here / "training.json").read_text())["processes"] == 2
        mine, theirs = (
            torch.load(where / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
            for where in (folder / str(number), here)
        )
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    assert results(folder) == results(alone)


def group(leader: int) -> set[int]:
    """The processes of a group that are alive."""
    alive = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # one that has just ended
            state, _, member = path.read_text().rpartition(")")[2].split()[:3]
            if int(member) == leader and state != "Z":
                alive.add(int(path.parent.name))
    return alive


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("to", ["group", "first", "killed"])
def test_sigterm_ends_several_processes(to, tmp_path):
    """Both get the signal, or only the first one does; or that one is killed."""
    endless = ["trainer.max_updates=100000", "trainer.validate_every=1000", "trainer.log_every=1"]
    ddp = ["trainer=ddp", "trainer.accelerator=cpu", *TINY, *endless]
    folder, errors = tmp_path / "run", tmp_path / "errors"
    with errors.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "train.py", *ddp, f"hydra.run.dir={folder}"],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stderr=file,
            start_new_session=True,
        )
    try:
        metrics = folder / "metrics.csv"
        wait_until(lambda: metrics.exists() and metrics.read_bytes().count(b"\n") > 5, 200)
        assert len(group(process.pid)) == 2
        if to == "group":
            os.killpg(process.pid, signal.SIGTERM)
        else:
            process.send_signal(signal.SIGTERM if to == "first" else signal.SIGKILL)
        process.wait(timeout=30)
        wait_until(lambda: not group(process.pid), 30)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if to != "killed":
        said = errors.read_text()
        # -9: Lightning saw the second process end before the first one was quite gone
        assert process.returncode in {TERMINATED, -signal.SIGKILL}
        assert said.count("terminated at update") == said.count("error:") == 1
        assert "with ckpt_path=last resumes" in said
        assert "Traceback" not in said


@pytest.mark.slow
def test_processes_with_different_configurations_all_stop(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ddp = ["trainer=ddp", "trainer.accelerator=cpu", *SMALL, f"cache={tmp_path / 'cache'}"]
    world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "train.py", *ddp, f"lambda=0.{rank + 1}", f"hydra.run.dir={tmp_path}"],
            cwd=ROOT,
            env={**os.environ, **world, "NODE_RANK": "0", "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for rank in ranks:
        _, errors = rank.communicate(timeout=300)
        assert "lambda is 0.1 on rank 0, 0.2 on rank 1" in errors
        assert "lambda is 0.1 on rank 0" in errors
        assert "Traceback" not in errors
        assert rank.returncode == 2
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.slow
def test_a_search_goes_on_where_it_was(tmp_path):
    """The sampler is seeded and a skipped run has its old value, so it proposes the same again."""
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")
    search = ["experiments=verbfinal_optuna", "hydra.sweeper.sampler.n_startup_trials=1"]
    named = "hydra.sweep.subdir='${run_name:${hydra:overrides.task}}'"
    folder = tmp_path / "sweep"
    first = run(folder, *search, named, "hydra.sweeper.n_trials=2")
    assert list(first.values()) == ["trained"] * 2
    second = run(folder, *search, named, "hydra.sweeper.n_trials=3")
    assert list(second.values()) == ["skipped", "skipped", "trained"]
    assert list(second)[:2] == list(first)
    best = OmegaConf.load(folder / "optimization_results.yaml")
    assert best.best_value == max(sweep.value(folder / name) for name in second)
