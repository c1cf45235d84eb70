"""Runs of several processes: how they are started, what is rejected, how they end together."""

from __future__ import annotations

import csv
import os
import re
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from lightning_fabric.plugins.environments.lightning import LightningEnvironment

from several import Several
from simulmt.errors import UserError
from simulmt.training.launch import find_environment
from small_runs import SMALL, TINY

VARIABLES = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "TORCHELASTIC_RUN_ID"),
    *("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
)


@pytest.fixture
def environment(monkeypatch):
    """Set the variables of launchers to these, and to no others."""

    def give(variables: dict[str, str]) -> None:
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    give({})
    return give


def started(world: int) -> dict[str, str]:
    """The environment of torchrun's last process."""
    ranks = {"RANK": str(world - 1), "LOCAL_RANK": "0", "GROUP_RANK": "0"}
    return {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": str(world), **ranks}


def test_who_starts_the_processes(environment):
    assert find_environment(1, 2) is None
    assert isinstance(find_environment(1, 1), LightningEnvironment)
    environment(started(4))
    found = find_environment(2, 2)
    assert found
    assert (found.global_rank(), found.world_size()) == (3, 4)


@pytest.mark.parametrize(
    ("variables", "nodes", "devices", "message"),
    [
        (started(2), 1, 1, "trainer.devices=1 and trainer.nodes=1"),
        (started(4), 3, 2, "trainer.devices=2 and trainer.nodes=3"),
        ({}, 2, 3, r"nodes=2, .*--nnodes=2 --nproc-per-node=3.* or `srun python train.py"),
    ],
)
def test_a_launcher_that_does_not_fit_is_rejected(variables, nodes, devices, message, environment):
    environment(variables)
    with pytest.raises(UserError, match=message):
        find_environment(nodes, devices)


ENDLESS = [*TINY, "trainer.max_updates=100000", "trainer.validate_every=1000"]
"""Validations are far apart: a kill meets the processes in a collective operation."""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("start", ["alone", "torchrun"])
def test_a_rank_that_is_killed_ends_all(start, rank, number, tmp_path):
    folder = tmp_path / "run"
    with Several(start, folder, [*ENDLESS, f"cache={tmp_path / 'cache'}"]) as run:
        run.until(rows=3)
        os.kill(run.ranks()[rank], number)
        statuses = run.wait(seconds=30)
        if start == "torchrun":
            assert statuses == [1]  # torchrun's own
            return
        assert statuses == [128 + number]
        [line] = run.errors()
        assert "Traceback" not in run.said()
    assert line.startswith(f"error: rank {rank} was killed by {number.name}")
    assert line.endswith("the same command with ckpt_path=last resumes from the last validation")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("rows", [None, 3])
def test_no_rank_outlives_the_process_that_started_it(rows, number, tmp_path):
    """Neither in training nor while the ranks import what they need."""
    folder = tmp_path / "run"
    with Several("alone", folder, [*ENDLESS, f"cache={tmp_path / 'cache'}"]) as run:
        while len(run.ranks()) < 2:
            time.sleep(0.05)
        if rows:
            run.until(rows)
        os.kill(run.agent, number)
        [status] = run.wait(seconds=30)
        assert status == (-number if number == signal.SIGKILL else 128 + number)
        assert len(run.errors()) == (number != signal.SIGKILL)
        assert "Traceback" not in run.said()


def losses(folder: Path) -> list[dict[str, str]]:
    """The metrics, but for the speed."""
    with (folder / "metrics.csv").open(newline="") as file:
        return [{k: v for k, v in r.items() if "_per_s" not in k} for r in csv.DictReader(file)]


def assert_same(one: Path, other: Path) -> None:
    for name in ("test_scores.json", "instances.log"):
        assert (one / name).read_bytes() == (other / name).read_bytes()
    assert losses(one) == losses(other)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run of two processes on one machine, without a fault."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with Several("alone", folder, [*SMALL, f"cache={folder.parent / 'cache'}"]) as run:
        assert run.wait() == [0], run.said()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("start", ["torchrun", "nodes"])
def test_two_machines_score_as_two_processes(start, whole, tmp_path):
    """To the last digit, dropout and noise included: the ranks are the same."""
    folder = tmp_path / "run"
    with Several(start, folder, [*SMALL, f"cache={tmp_path / 'cache'}"]) as run:
        assert set(run.wait()) == {0}, run.said()
        assert not run.errors()
    assert_same(folder, whole)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("rank", [0, 1])
def test_the_same_command_resumes_on_two_machines(rank, whole, tmp_path):
    folder, options = tmp_path / "run", [*SMALL, f"cache={tmp_path / 'cache'}"]
    with Several("nodes", folder, options) as run:
        run.until(rows=4)  # the first validation is at the third update
        os.kill(run.ranks()[rank], signal.SIGKILL)
        assert 0 not in run.wait(seconds=90)  # the other machine sees it by its connection
    with Several("nodes", folder, [*options, "ckpt_path=last"]) as run:
        assert run.wait() == [0, 0], run.said()
    assert_same(folder, whole)
    with Several("nodes", folder, [*options, "ckpt_path=last"]) as run:
        assert run.wait() == [0, 0], run.said()
        assert re.search(r"the run in .* is finished", run.said())


@pytest.mark.slow
def test_two_runs_at_once_on_one_machine_do_not_meet(whole, tmp_path):
    with ExitStack() as stack:
        runs = [
            stack.enter_context(
                Several("alone", tmp_path / name, [*SMALL, f"cache={tmp_path / 'cache'}"])
            )
            for name in ("one", "two")
        ]
        for run in runs:
            assert run.wait() == [0], run.said()
            assert_same(run.folder, whole)
