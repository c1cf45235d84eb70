"""The wheel in an environment of its own, with a plugin beside it, used from another folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from functools import partial
from pathlib import Path

import pytest

from simulmt.page import FILES
from small_runs import ROOT, SMALL

EXAMPLE = ROOT / "examples" / "catch_up"
Simulmt = partial[subprocess.CompletedProcess[str]]


def pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(list(map(str, command)), check=True, timeout=300)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> Path:
    """The wheels of simulmt and of the example, built without the network."""
    folder = tmp_path_factory.mktemp("wheels")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT, EXAMPLE)
    return folder


def environment(folder: Path, *wheels: Path) -> Path:
    """An environment with these wheels, which has torch and the rest from the one of the tests."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip("--python", python, "install", "--no-deps", "--no-index", *wheels)
    (packages,) = folder.glob("lib/*/site-packages")
    (packages / "shared.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "simulmt"


@pytest.fixture(scope="module")
def simulmt(wheels, tmp_path_factory) -> Simulmt:
    """The command `simulmt` of an environment that also has the example."""
    command = environment(tmp_path_factory.mktemp("env"), *wheels.glob("*.whl"))
    return partial(checked, command, tmp_path_factory.mktemp("elsewhere"))


def checked(
    command: Path, here: Path, *words: str | Path, status: int = 0
) -> subprocess.CompletedProcess[str]:
    done = typed(command, here, *words)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def typed(command: Path, here: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    line = list(map(str, (command, *words)))
    return subprocess.run(
        line, cwd=here, env=clean, capture_output=True, text=True, timeout=300, check=False
    )


SWEEP = ("hydra.sweep.dir=sweep", "hydra.sweep.subdir=k${mechanism.k}")


@pytest.mark.slow
def test_a_plugin_goes_through_every_verb(simulmt, tmp_path):
    """Nothing of the plugin is in simulmt: an entry point names it."""
    answer = simulmt("train", "-m", *SMALL, "mechanism=catch_up", "mechanism.k=1,2", *SWEEP)
    assert "catch_up k=2 steady=6" in answer.stdout
    assert "2 runs, 0 failed" in answer.stdout
    run, device = "checkpoint=sweep/k2", "device=cpu"
    simulmt("evaluate", run, device, "dial.k=5")
    simulmt("export", run, f"to={tmp_path / 'exported'}")
    (tmp_path / "text").write_text("das ist ein Haus\n", encoding="utf-8")
    live = simulmt("translate", run, device, f"input={tmp_path / 'text'}").stdout
    exported = f"checkpoint={tmp_path / 'exported'}"
    assert simulmt("translate", exported, device, f"input={tmp_path / 'text'}").stdout == live
    simulmt("report", "runs=sweep", f"to={tmp_path}", "published=milk/table5", "resamples=40")
    assert "catch_up" in (tmp_path / "report.html").read_text(encoding="utf-8")
    simulmt("analyse", "study=initial_delay", "runs=sweep/k2")


@pytest.mark.slow
@pytest.mark.parametrize("named", [False, True], ids=["installed", "named"])
def test_processes_ranks_and_simuleval_see_a_plugin(named, wheels, tmp_path):
    """Those of DDP and of joblib, and SimulEval's agent, by entry point and by name."""
    shutil.copytree(EXAMPLE / "catch_up", tmp_path / "catch_up")
    chosen = wheels.glob("simulmt*" if named else "*.whl")
    run = partial(checked, environment(tmp_path / "env", *chosen), tmp_path)
    plugin = ["mechanism=catch_up", *(["plugins=[catch_up]"] if named else [])]
    run("train", *SMALL, *plugin, "trainer=ddp", "name=ranks")
    swept = ["mechanism.k=1,2", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "name=sweep"]
    assert "2 runs, 0 failed" in run("train", "-m", *SMALL, *plugin, *swept).stdout
    for name in ("source", "target"):
        (tmp_path / name).write_text("das ist ein Haus\n", encoding="utf-8")
    agent = ["--agent-class", "simulmt.live.simuleval_agent.SimulmtAgent", "--checkpoint"]
    words = [*agent, "runs/verbfinal/ranks", *(["--plugins", "catch_up"] if named else [])]
    python = tmp_path / "env" / "bin" / "python"
    files = ["--source", "source", "--target", "target", "--output", "evaluated"]
    checked(python, tmp_path, "-m", "simuleval.cli", *words, *files)
    assert (tmp_path / "evaluated" / "instances.log").is_file()


def test_the_wheel_has_the_files_beside_the_modules(wheels):
    (wheel,) = wheels.glob("simulmt*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = {*archive.namelist()}
    pages = {path.name for path in (ROOT / "src/simulmt/page").iterdir() if path.suffix != ".py"}
    assert {f"simulmt/page/{name}" for name in pages - {"__pycache__"}} <= inside
    assert "simulmt/data/verbfinal.tsv" in inside
    assert len(pages) >= len(FILES) + 3  # those that are inlined
