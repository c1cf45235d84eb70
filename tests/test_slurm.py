"""Runs and sweeps in the jobs of a real SLURM on this machine, and the rules for its variables."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment

from cluster import Cluster, NoSlurmError, cluster
from faults.world import results
from simulmt.errors import UserError
from simulmt.files.run_directory import Provenance
from simulmt.system.disk import write_json
from simulmt.training.launch import find_environment
from simulmt.training.resume import choose_resume
from small_runs import ROOT, TINY

PAGE = ROOT / "docs" / "clusters.md"
LONG = ["trainer.max_updates=200", "trainer.validate_every=10", "mechanism=mma_il"]


@pytest.fixture(autouse=True)
def no_job(monkeypatch) -> None:
    """As on a login node, even if the tests run in a job."""
    for name in os.environ:
        if name.startswith(("SLURM_", "MASTER_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory) -> Iterator[Cluster]:
    try:
        with cluster(tmp_path_factory.mktemp("slurm")) as here:
            yield here
    except NoSlurmError as error:
        pytest.skip(f"no SLURM: {error}")


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> Path:
    """The script of the page, but for the GPUs, which SLURM would look for."""
    text = re.search(r"^#!/bin/bash\n.*?(?=^```)", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert text
    path = tmp_path_factory.mktemp("script") / "run.sh"
    path.write_text(re.sub(r"#SBATCH --gpus.*\n", "", text[0]))
    return path


def started(slurm: Cluster, script: Path, folder: Path, *overrides: str, wide: int = 2) -> int:
    """Submit the script of the page for a run on `wide` nodes; its output goes to `folder`.log."""
    size = [f"--nodes={wide}", f"--ntasks-per-node={2 // wide}", "--cpus-per-task=1"]
    options = [f"--chdir={ROOT}", f"--output={folder}.log"]
    run = [f"hydra.run.dir={folder}", f"cache={folder.parent / 'cache'}", "trainer.accelerator=cpu"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return slurm.submit(*size, *options, str(script), *TINY, *run, *overrides, PATH=path)


def rows(folder: Path) -> int:
    metrics = folder / "metrics.csv"
    return metrics.read_bytes().count(b"\n") if metrics.exists() else 0


def wait_until(condition: Callable[[], bool], seconds: float = 200) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.1)


def output(folder: Path) -> str:
    return folder.with_name(f"{folder.name}.log").read_text()


@pytest.mark.slow
def test_the_script_of_the_page_goes_on_by_itself_whatever_stops_the_job(slurm, script, tmp_path):
    """Two nodes; one node; two nodes requeued, warned of the time limit, and preempted."""
    whole, narrow, broken = tmp_path / "whole", tmp_path / "narrow", tmp_path / "broken"
    for folder, wide in ((whole, 2), (narrow, 1)):
        job = started(slurm, script, folder, *LONG, wide=wide)
        slurm.wait(job, "COMPLETED", seconds=300)
    assert results(narrow) == results(whole)
    job = started(slurm, script, broken, *LONG)
    after = 0
    for stop in (
        lambda: slurm.call("scontrol", "requeue", str(job)),
        lambda: slurm.call("scancel", "--batch", "--signal=USR1", str(job)),
        lambda: slurm.submit("--partition=urgent", "--exclusive", "--nodes=2", "--wrap=sleep 2"),
    ):
        after = max(after, rows(broken)) + 25
        wait_until(lambda most=after: rows(broken) > most)
        stop()
        slurm.wait(job, "PENDING", "REQUEUED", seconds=60)
        slurm.wait(job, "RUNNING", seconds=60)
    slurm.wait(job, "COMPLETED", seconds=300)
    assert results(broken) == results(whole)
    said = output(broken)
    assert said.count("SLURM has started this job again: ckpt_path=last\n") == 3
    assert said.count("error: terminated") == 3
    assert "Traceback" not in said


def step(monkeypatch, tasks: int, machines: int) -> None:
    variables = {"STEP_NUM_TASKS": tasks, "STEP_NUM_NODES": machines, "STEP_NODELIST": "a[3-4],b"}
    for name, value in {"JOB_ID": 70, "STEP_ID": 2, "NTASKS": tasks, **variables}.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    for name in ("SLURM_NNODES", "SLURM_NTASKS_PER_NODE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)


def test_the_processes_of_a_step_meet_at_its_own_place(monkeypatch):
    step(monkeypatch, 1, 1)
    assert find_environment(1, 4) is None  # a task on its own starts the others
    step(monkeypatch, 4, 2)
    environment = find_environment(2, 2)
    assert isinstance(environment, SLURMEnvironment)
    assert (environment.main_address, environment.main_port) == ("a3", 15_000 + 70 * 16 + 2)
    assert not environment.auto_requeue


@pytest.mark.parametrize(("nodes", "devices"), [(1, 4), (1, 1), (4, 1)])
def test_a_step_has_the_processes_of_the_run(monkeypatch, nodes, devices):
    step(monkeypatch, 4, 2)
    with pytest.raises(UserError):
        find_environment(nodes, devices)


@pytest.mark.parametrize(
    ("restarts", "job", "chosen"), [("1", "7", "last"), (None, "7", None), ("1", "8", None)]
)
def test_a_job_that_starts_again_goes_on_with_its_own_run(
    monkeypatch, restarts, job, chosen, tmp_path
):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    if restarts:
        monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
    write_json(tmp_path / "provenance.json", Provenance("", "", None, {}, "", "", job))
    assert choose_resume(None, tmp_path) is None
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.ckpt").touch()
    assert choose_resume(None, tmp_path) == chosen
