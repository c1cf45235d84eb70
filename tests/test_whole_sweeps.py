"""Whole sweeps, as typed: kills at any moment change no score."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from faults.injector import group
from simulmt.programs import sweep
from simulmt.programs.outcome import SWEEP
from small_runs import ROOT, TINY

SMALL = [*TINY, "trainer.max_updates=8", "trainer.validate_every=2"]
MANY = ["trainer.max_updates=60", "trainer.validate_every=4"]
GRID = ["mechanism=milk,mma_il", "lambda=0.2", *MANY]
pytestmark = pytest.mark.slow


def command(folder: Path, *arguments: str) -> list[str]:
    cache = folder.parent / "cache"
    return [
        *(sys.executable, "train.py", "-m", *SMALL, f"cache={cache}"),
        *(f"hydra.sweep.dir={folder}", "hydra.sweep.subdir='${hydra:job.num}'", *arguments),
    ]


def run(folder: Path, *arguments: str, status: int = 0) -> dict[str, str]:
    """Sweep; the outcomes by run."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop(SWEEP, None)
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


@pytest.mark.parametrize("launcher", ["joblib", "submitit_local"])
def test_runs_at_the_same_time_score_as_in_turn(launcher, whole, tmp_path):
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.partition('_')[0]}_launcher")
    folder = tmp_path / "sweep"
    assert set(run(folder, *GRID, f"hydra/launcher={launcher}").values()) == {"trained"}
    assert results(folder) == results(whole)


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


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.1)


def ranks(first: int) -> list[int]:
    """The further processes of a run; its first one also starts git, for the commit."""
    path = Path(f"/proc/{first}/task/{first}/children")
    started = path.read_text().split() if path.exists() else []
    return [int(process) for process in started if _is_python(Path("/proc", process, "cmdline"))]


def _is_python(command: Path) -> bool:
    with contextlib.suppress(OSError):  # it has ended
        return b"train.py" in command.read_bytes()
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("moment", ["starts", "trains"])
@pytest.mark.parametrize(
    ("to", "number"),
    [
        ("all", signal.SIGTERM),
        ("first", signal.SIGTERM),
        ("second", signal.SIGTERM),
        ("first", signal.SIGKILL),
        ("second", signal.SIGKILL),
    ],
)
def test_a_signal_ends_several_processes_with_one_line(to, number, moment, tmp_path):
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
        if moment == "trains":
            wait_until(lambda: metrics.exists() and metrics.read_bytes().count(b"\n") > 5, 200)
        wait_until(lambda: len(ranks(process.pid)) == 1, 200)
        if to == "all":
            os.killpg(process.pid, number)
        else:
            os.kill(process.pid if to == "first" else ranks(process.pid)[0], number)
        process.wait(timeout=15)
        wait_until(lambda: not group(process.pid), 5)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    said = errors.read_text()
    if (to, number) == ("first", signal.SIGKILL):
        assert (process.returncode, said) == (-signal.SIGKILL, "")
        return
    assert process.returncode == 128 + number
    why = "terminated" if number == signal.SIGTERM else "rank 1 was killed by SIGKILL"
    assert said.startswith(f"error: {why}")
    assert said.count("\n") == 1
    assert "with ckpt_path=last resumes" in said


@pytest.mark.parametrize("launcher", ["basic", "joblib"])
def test_two_sweeps_at_once_share_the_work(launcher, whole, tmp_path):
    if launcher == "joblib":
        pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    folder = tmp_path / "sweep"
    both = [
        subprocess.Popen(
            command(folder, *GRID, f"hydra/launcher={launcher}"),
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = "".join(each.communicate(timeout=500)[0] for each in both)
    assert [each.returncode for each in both] == [0, 0]
    for number in ("0", "1"):
        ends = re.findall(rf"^{number}: (trained|skipped|resumed|failed)", said, re.MULTILINE)
        assert sorted(ends) == ["skipped", "trained"]
    assert said.count("2 runs, 0 failed") == 2
    assert results(folder) == results(whole)
    assert not [*folder.glob(".sweep-*")]


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
    errors = [rank.communicate(timeout=300)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [2, 2]
    assert "lambda is 0.1 on rank 0, 0.2 on rank 1" in errors[0]
    assert errors[0].count("error: ") == 1
    assert not errors[1]
    assert not (tmp_path / "checkpoints").exists()


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
