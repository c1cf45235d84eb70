"""Runs of several processes: how they are started, what is rejected, how they end together."""

from __future__ import annotations

from pathlib import Path

import pytest
from lightning_fabric.plugins.environments.lightning import LightningEnvironment

from faults.world import results
from several import Several
from simulmt.errors import UserError
from simulmt.training.launch import find_environment
from small_runs import SMALL

VARIABLES = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "TORCHELASTIC_RUN_ID"),
    *("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
)
STEP = "`srun --kill-on-bad-exit=1 python train.py"


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
        ({}, 2, 3, r"nodes=2, .*--nnodes=2 --nproc-per-node=3.* or " + STEP),
    ],
)
def test_a_launcher_that_does_not_fit_is_rejected(variables, nodes, devices, message, environment):
    environment(variables)
    with pytest.raises(UserError, match=message):
        find_environment(nodes, devices)


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
    assert results(folder) == results(whole)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_the_same_command_resumes_on_two_machines(rank, whole, tmp_path):
    folder, options = tmp_path / "run", [*SMALL, f"cache={tmp_path / 'cache'}"]
    with Several("nodes", folder, options) as run:
        run.until(rows=4)  # the first validation is at the third update
        run.typed[rank].kill()
        assert 0 not in run.wait()  # the other machine sees it by its connection
    with Several("nodes", folder, [*options, "ckpt_path=last"]) as run:
        assert run.wait() == [0, 0], run.said()
    assert results(folder) == results(whole)
    with Several("nodes", folder, [*options, "ckpt_path=last"]) as run:
        assert run.wait() == [0, 0], run.said()
        assert "is already finished" in run.said()
