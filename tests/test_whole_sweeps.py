"""Whole sweeps, as typed: launchers and a second sweep beside the first change no score."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from faults.world import results
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


def run(folder: Path, *arguments: str) -> dict[str, str]:
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
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    with (folder / "sweep.csv").open(newline="") as file:
        return {row["run"]: row["outcome"] for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A sweep that nothing interrupted."""
    folder = tmp_path_factory.mktemp("sweeps") / "whole"
    assert run(folder, *GRID) == {"0": "trained", "1": "trained"}
    return folder


@pytest.mark.parametrize("launcher", ["joblib", "submitit_local"])
def test_runs_at_the_same_time_score_as_in_turn(launcher, whole, tmp_path):
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.partition('_')[0]}_launcher")
    folder = tmp_path / "sweep"
    assert set(run(folder, *GRID, f"hydra/launcher={launcher}").values()) == {"trained"}
    assert all(results(folder / n) == results(whole / n) for n in "01")


def test_two_sweeps_at_once_share_the_work(whole, tmp_path):
    folder = tmp_path / "sweep"
    both = [
        subprocess.Popen(
            command(folder, *GRID),
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        said = "".join(each.communicate(timeout=500)[0] for each in both)
    finally:
        for each in both:
            each.kill()
    assert [each.returncode for each in both] == [0, 0]
    for name in ("milk", "mma_il"):
        end = rf"^mechanism-{name}\S*: (trained|skipped|resumed|failed)"
        ends = re.findall(end, said, re.MULTILINE)
        assert sorted(ends) == ["skipped", "trained"]
    assert said.count("2 runs, 0 failed") == 2
    assert all(results(folder / n) == results(whole / n) for n in "01")
    assert not [*folder.glob(".sweep-*")]


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


def test_the_runs_of_a_sweep_find_the_presets_of_an_own_folder(tmp_path):
    preset = tmp_path / "own" / "experiments" / "mine.yaml"
    preset.parent.mkdir(parents=True)
    preset.write_text("# @package _global_\nname: mine\n")
    words = ["experiments=mine", "lambda=0.1", "--config-dir", str(tmp_path / "own")]
    assert run(tmp_path / "sweep", *words) == {"0": "trained"}
    assert OmegaConf.load(tmp_path / "sweep" / "0" / "config.json")["name"] == "mine"
