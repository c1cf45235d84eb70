"""Where a run comes from: the command, the commit, the versions and the machine."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import torch

from simulmt.files.run_directory import BEST, WEIGHTS, read_provenance
from simulmt.programs import provenance as module
from simulmt.programs.export import export
from simulmt.programs.provenance import provenance
from simulmt.saved.checkpoint import load, weights_file
from simulmt.training.resume import used_models
from small_runs import configuration


def test_a_run_and_its_export_say_where_they_come_from(trained_once, tmp_path):
    run = trained_once("mechanism=soft")
    told = read_provenance(run)
    assert told is not None
    assert told.versions["torch"] == torch.__version__
    assert told.device
    assert told.host
    export(configuration("export", f"checkpoint={run}", f"to={tmp_path / 'out'}"))
    assert read_provenance(tmp_path / "out") == told
    export(configuration("export", f"checkpoint={tmp_path / 'out'}", f"to={tmp_path / 'again'}"))
    assert read_provenance(tmp_path / "again") == told


def test_the_digest_of_the_start_is_kept(trained_once, tmp_path):
    run = trained_once("mechanism=soft")
    export(configuration("export", f"checkpoint={run}", f"to={tmp_path / 'out'}"))
    for start, file in (
        (run / BEST, run / BEST),
        (tmp_path / "out", tmp_path / "out" / WEIGHTS),
    ):
        expected = hashlib.sha256(file.read_bytes()).hexdigest()
        used = used_models({"init_from": str(start), "teacher": {"kind": "none"}})
        assert used == {f"init_from={start}": expected, "teacher.checkpoint=None": None}


def test_a_bare_name_and_a_tilde_are_places_too(trained_once, monkeypatch):
    run = trained_once("mechanism=soft")
    monkeypatch.chdir((run / BEST).parent)
    assert load(Path((run / BEST).name)).home == run
    monkeypatch.setenv("HOME", str(run.parent))
    assert weights_file(Path("~") / run.name / BEST) == run / BEST


def test_the_command_is_what_the_user_typed(monkeypatch):
    monkeypatch.delenv(module.COMMAND, raising=False)
    monkeypatch.setattr(sys, "orig_argv", ["python", "own.py", "lambda=0.2", "name=a b"])
    assert provenance("cpu", {}).command == "python own.py lambda=0.2 'name=a b'"
    monkeypatch.setenv(module.COMMAND, "train.py -m lambda=0.1,0.2")
    assert provenance("cpu", {}).command == "train.py -m lambda=0.1,0.2"


def test_without_git_there_is_no_commit(monkeypatch):
    def absent(*_: object, **__: object) -> None:
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", absent)
    assert provenance("cpu", {}).commit is None


def test_the_commit_of_another_project_is_not_taken(monkeypatch, tmp_path):
    for line in (["init", "-q"], ["-c", "user.name=a", "-c", "user.email=b", "commit", "-q",
                 "--allow-empty", "-m", "x"]):  # fmt: skip
        subprocess.run(["git", "-C", str(tmp_path), *line], check=True)
    monkeypatch.setattr(module, "__file__", str(tmp_path / "provenance.py"))
    assert provenance("cpu", {}).commit is None
