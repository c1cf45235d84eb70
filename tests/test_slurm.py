"""Runs and sweeps in the jobs of a real SLURM on this machine, and the rules for its variables."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment

from cluster import Cluster, NoSlurmError, cluster
from simulmt.errors import UserError
from simulmt.files.run_directory import Provenance
from simulmt.system.disk import write_json
from simulmt.training.launch import find_environment
from simulmt.training.resume import is_requeued
from small_runs import ROOT, TINY

PAGE = ROOT / "docs" / "clusters.md"
LONG = ["trainer.max_updates=200", "trainer.validate_every=10", "mechanism=mma_il"]
SHORT = ["trainer.max_updates=8", "trainer.validate_every=2", "mechanism=mma_il"]
ENDLESS = ["trainer.max_updates=100000", "trainer.validate_every=1000", "mechanism=mma_il"]
DDP = ["trainer=ddp", "trainer.accelerator=cpu"]


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


def results(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("test_scores.json", "instances.log")}


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
    assert (
        said.count("SLURM has restarted this job: the run resumes, as with ckpt_path=last\n") == 3
    )
    assert said.count("error: terminated") == 3
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_ends_the_job(rank, slurm, script, tmp_path):
    folder = tmp_path / "run"
    job = started(slurm, script, folder, *ENDLESS)
    wait_until(lambda: rows(folder) > 5)
    os.kill(process_of(slurm, job, rank), signal.SIGKILL)
    slurm.wait(job, "FAILED", seconds=30)
    said = output(folder)
    assert f"task {rank}: Killed" in said
    assert "Traceback" not in said
    assert said.count("error: terminated") <= 1


def process_of(slurm: Cluster, job: int, rank: int) -> int:
    """The process of a rank of a job's first step, as this machine numbers it."""
    names = {"CONF": slurm.folder / "slurm.conf", "JOB_ID": job, "STEP_ID": 0, "PROCID": rank}
    wanted = {f"SLURM_{name}={value}".encode() for name, value in names.items()}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"train.py" in words[1:2] and wanted <= {*variables}:
            return int(folder.name)
    raise AssertionError("no such process")


@pytest.mark.slow
def test_two_runs_in_one_job_do_not_meet(slurm, tmp_path):
    one = f"{sys.executable} train.py {' '.join([*TINY, *SHORT, *DDP])} trainer.nodes=2"
    runs = [
        f"srun --overlap --ntasks=2 --nodes=2 {one} trainer.devices=1 lambda=0.{number} "
        f"hydra.run.dir={tmp_path / str(number)} cache={tmp_path / str(number)}-cache &"
        for number in (1, 2)
    ]
    script = "\n".join(["export OMP_NUM_THREADS=1", *runs, "wait"])
    where = [f"--chdir={ROOT}", f"--output={tmp_path}/log"]
    job = slurm.submit("--nodes=2", "--ntasks-per-node=1", *where, f"--wrap={script}")
    slurm.wait(job, "COMPLETED", seconds=300)
    for number in (1, 2):
        assert results(tmp_path / str(number))
        assert json.loads((tmp_path / str(number) / "training.json").read_text())["processes"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "overrides", "message"),
    [
        (
            "srun --kill-on-bad-exit=1 --ntasks=2",
            [],
            "trainer.devices=1 .* 2 were started",
        ),
        (
            "srun --ntasks=1",
            ["trainer.nodes=2"],
            "neither torchrun nor srun has started this process",
        ),
        ("", ["trainer.nodes=2"], "neither torchrun nor srun has started"),
    ],
)
def test_other_processes_than_those_of_the_run_are_refused(
    command, overrides, message, slurm, tmp_path
):
    """In an allocation, as `salloc` gives one."""
    line = f"{command} {sys.executable} train.py hydra.run.dir={tmp_path / 'run'}"
    allocation = ["salloc", "--quiet", "--nodes=1", "--ntasks=2", *line.split(), *overrides]
    done = subprocess.run(
        allocation,
        cwd=ROOT,
        env={**os.environ, **slurm.environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in {2, 143}  # srun's is the greatest of all: it ends the others
    theirs = re.compile("srun:|slurmstepd|salloc:")
    ours = [line for line in done.stderr.splitlines() if not theirs.match(line)]
    assert len(ours) == 1, done.stderr
    assert re.search(message, ours[0])
    assert not (tmp_path / "run").exists()


@contextmanager
def sweep(slurm: Cluster, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A sweep of mma_il, milk and soft, which is killed if its time is over."""
    where = [f"hydra.sweep.dir={folder}", "hydra.sweep.subdir='${hydra:job.num}'"]
    line = [sys.executable, "train.py", "-m", *TINY, f"cache={folder.parent / 'cache'}", *where]
    with subprocess.Popen(
        [*line, *arguments],
        cwd=ROOT,
        env={**os.environ, **slurm.environment, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def outcomes(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "sweep.csv").open(newline="") as file:
        return {row["run"]: row for row in csv.DictReader(file)}


@pytest.mark.slow
def test_a_sweep_of_jobs_ends_like_any_other(slurm, tmp_path):
    """A job that runs out of time goes on, whatever befalls others; the same command ends all."""
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    grid = ["mechanism=milk,mma_il,soft", "lambda=0", *LONG[:2]]
    with sweep(slurm, whole, *grid) as process:
        said, _ = process.communicate(timeout=400)
        assert process.returncode == 0, said
    jobs = ["hydra/launcher=submitit_slurm", "hydra.launcher.array_parallelism=2"]
    jobs += ["hydra.launcher.timeout_min=5", "hydra.launcher.max_num_timeout=1"]
    with sweep(slurm, broken, *grid, *jobs) as process:
        wait_until(lambda: min(rows(broken / "0"), rows(broken / "1")) > 25)
        array = next((broken / ".submitit").glob("*_0")).name.partition("_")[0]
        slurm.call("scancel", f"{array}_2")
        slurm.call("scancel", f"{array}_0")
        slurm.call("scancel", "--signal=USR2", f"{array}_1")
        said, _ = process.communicate(timeout=300)
    assert process.returncode == 1, said
    wait_until((broken / "1" / "test_scores.json").is_file)
    with sweep(slurm, broken, *grid, *jobs) as process:
        said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert [found["outcome"] for found in outcomes(broken).values()] == [
        *("resumed", "skipped", "trained")
    ]
    for number in range(3):
        assert results(broken / str(number)) == results(whole / str(number))


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
    ("restarts", "job", "resumed"), [("1", "7", True), (None, "7", False), ("1", "8", False)]
)
def test_a_job_that_starts_again_goes_on_with_its_own_run(
    monkeypatch, restarts, job, resumed, tmp_path
):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    if restarts:
        monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
    write_json(tmp_path / "provenance.json", Provenance("", "", None, {}, "", "", job))
    assert not is_requeued(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.ckpt").touch()
    assert is_requeued(tmp_path) == resumed
