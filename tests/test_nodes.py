"""Runs on several machines: how they are started, what is refused, and how they end together."""

from __future__ import annotations

import csv
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from several import STARTS, Several, free_port
from simulmt.errors import UserError
from simulmt.training.launch import OwnPort, find_launch
from simulmt.training.ranks import refuse_another_disk
from small_runs import SMALL, TINY

VARIABLES = (
    *("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "SLURM_NTASKS", "SLURM_PROCID"),
)
BY_HAND = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "12345"}


def started(world: int, here: int) -> dict[str, str]:
    """The environment of torchrun's last process."""
    return {
        **{"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(here)},
        **{"RANK": str(world - 1), "LOCAL_RANK": str(here - 1), "GROUP_RANK": "0", **BY_HAND},
    }


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


@pytest.mark.parametrize(
    ("variables", "nodes", "devices", "message"),
    [
        (started(2, 2), 1, 1, "is 1 processes, but torchrun has started 2: give .*nodes=1 .*=2$"),
        (started(2, 1), 1, 2, "is 2 processes, but torchrun has started 2: give .*nodes=2 .*=1$"),
        (started(4, 2), 3, 2, "is 6 processes, but torchrun has started 4: give .*nodes=2 .*=2$"),
        (started(3, 2), 1, 2, "has started 3: give each machine the same number of them"),
        ({}, 2, 3, r"nodes=2, .* \(MASTER_ADDR is not set\): .*--nnodes=2 --nproc-per-node=3"),
        (BY_HAND, 2, 1, r"does not know the others \(NODE_RANK is not set\)"),
        ({"LOCAL_RANK": "1"}, 1, 2, r"does not know the others \(MASTER_ADDR is not set\)"),
        ({**BY_HAND, "NODE_RANK": "2"}, 2, 1, "NODE_RANK is '2' .* must be from 0 to 1"),
        ({"NODE_RANK": "1"}, 1, 1, "NODE_RANK is '1' .* must be from 0 to 0"),
        ({**BY_HAND, "LOCAL_RANK": "x"}, 1, 2, "LOCAL_RANK is 'x' .* must be from 0 to 1"),
        (
            {**BY_HAND, "NODE_RANK": "1", "MASTER_PORT": "65536"},
            *(2, 1, "MASTER_PORT is '65536' .* must be from 1 to 65535"),
        ),
    ],
)
def test_a_launcher_that_does_not_fit_is_refused(variables, nodes, devices, message, environment):
    environment(variables)
    with pytest.raises(UserError, match=message):
        find_launch(nodes, devices)


@pytest.mark.parametrize(
    ("variables", "nodes", "devices", "rank", "members"),
    [
        ({}, 1, 1, 0, [0]),
        ({}, 1, 8, 0, [0]),  # Lightning starts the others
        ({"MASTER_PORT": "12345", "WORLD_SIZE": "7"}, 1, 8, 0, [0]),
        (started(4, 2), 2, 2, 3, [0, 1, 2, 3]),
        ({**BY_HAND, "NODE_RANK": "1"}, 2, 4, 4, [0, 4]),
        ({**BY_HAND, "NODE_RANK": "1", "LOCAL_RANK": "1"}, 2, 2, 3, [0, 1, 2, 3]),
    ],
)
def test_the_rank_of_a_process_and_those_it_meets(
    variables, nodes, devices, rank, members, environment
):
    environment(variables)
    launch = find_launch(nodes, devices)
    assert (launch.rank, [*launch.members]) == (rank, members)


def test_a_port_is_bound_as_soon_as_it_is_chosen(environment):
    """Lightning's own is not: another run may take it before the process group does."""
    environment({"MASTER_PORT": "12345"})  # of another run
    ports = [find_launch(1, 2).environment for _ in range(2)]
    assert all(isinstance(port, OwnPort) for port in ports)
    assert len({port.main_port for port in ports}) == 2
    for port in ports:
        with socket.socket() as late, pytest.raises(OSError, match="in use"):
            late.bind(("", port.main_port))


def test_a_run_directory_that_a_machine_does_not_see_is_refused():
    found = [("one", True), ("two", False)]
    with pytest.raises(UserError, match=r"rank 1, on two, does not see .*hydra.run.dir=FOLDER"):
        refuse_another_disk(found, Path("run"))


MEMBER = """
import os, signal, sys, time
from simulmt import ending
ending.begin()
from simulmt.errors import UserError
from simulmt.training import launch, lifeline, ranks

how, rank = sys.argv[1], int(os.environ["LOCAL_RANK"])
with ranks.one_voice():
    line = lifeline.join(launch.find_launch(1, 3))
    assert line.decide(lambda: rank == 0)
    ending.remedy("resume")
    if rank == 2 and how == "bad input":
        raise UserError("no such file")
    if how.startswith("SIG") and rank == int(how[-1]):
        os.kill(os.getpid(), getattr(signal, how[:-1]))
    time.sleep(2 * (rank + 1) if how == "in turn" else 60 if how != "backwards" else 6 - 2 * rank)
"""
GONE = "has gone without a word: it was killed, or it crashed; resume"


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals there")
@pytest.mark.parametrize(
    ("how", "statuses", "line"),
    [
        ("in turn", (0, 0, 0), ""),  # the first ends first
        ("backwards", (0, 0, 0), ""),
        ("SIGKILL0", (-9, 1, 1), f"rank 0 {GONE}"),
        ("SIGKILL2", (1, 1, -9), f"rank 2 {GONE}"),
        ("SIGSEGV1", (1, -11, 1), f"rank 1 {GONE}"),
        ("SIGTERM0", (143, 143, 143), "terminated; resume"),
        ("SIGTERM1", (143, 143, 143), "rank 1: terminated; resume"),
        ("SIGINT2", (130, 130, 130), "rank 2: interrupted; resume"),
        ("bad input", (2, 2, 2), "rank 2: no such file"),
    ],
)
def test_processes_end_together_with_one_line(how, statuses, line):
    port = str(free_port())
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    world = kept | BY_HAND | {"MASTER_PORT": port}
    members = [
        subprocess.Popen(
            [sys.executable, "-c", MEMBER, how],
            env={**world, "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    said = "".join(member.communicate(timeout=60)[1] for member in members)
    assert tuple(member.returncode for member in members) == statuses, said
    where = f"on {socket.gethostname()}, " if "rank" in line else ""
    assert said == (f"error: {where}{line}\n" if line else "")


ENDLESS = [*TINY, "trainer.max_updates=100000", "trainer.validate_every=1000"]
"""Validations are far apart: a kill meets the processes in a collective operation."""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("start", STARTS)
def test_a_rank_that_is_killed_ends_all(start, rank, number, tmp_path):
    folder = tmp_path / "run"
    with Several(start, folder, [*ENDLESS, f"cache={tmp_path / 'cache'}"]) as run:
        run.until(rows=3)
        os.kill(run.ranks()[rank], number)
        statuses = run.wait(seconds=30 if start in {"nodes", "hand"} else 15)
        assert 0 not in statuses
        if (start, rank) == ("lightning", 0) and number != signal.SIGTERM:
            assert run.said().count("error: ") == 0  # the shell says it
            return
        [line] = run.errors()
    assert line.endswith("the same command with ckpt_path=last resumes from the last validation")
    assert "terminated" in line if number == signal.SIGTERM else f"rank {rank} " in line


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
    with Several("lightning", folder, [*SMALL, f"cache={folder.parent / 'cache'}"]) as run:
        assert run.wait() == [0], run.said()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("start", ["torchrun", "nodes", "hand"])
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
        assert 0 not in run.wait(seconds=30)
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
                Several("lightning", tmp_path / name, [*SMALL, f"cache={tmp_path / 'cache'}"])
            )
            for name in ("one", "two")
        ]
        for run in runs:
            assert run.wait() == [0], run.said()
            assert_same(run.folder, whole)
