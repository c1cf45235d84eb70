"""The archive of a comparison: what a report reads comes back to the byte, without the text."""

from __future__ import annotations

import importlib
import json
import tarfile
from collections.abc import Iterator
from shutil import copytree
from types import ModuleType

import pytest

from simulmt.analysis.runs.found import find_runs
from simulmt.files import run_directory as files
from simulmt.system.disk import read_json
from small_runs import ROOT


@pytest.fixture
def archive() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "experiments/comparison"))
        yield importlib.import_module("archive")


@pytest.fixture
def runs(trained_once, tmp_path):
    copytree(trained_once("mechanism=wait_k"), tmp_path / "runs/wait_k")
    copytree(tmp_path / "runs/wait_k", tmp_path / "runs/wait_k/evaluation/test-k1")
    return tmp_path / "runs"


def test_unpacked_runs_are_those_that_were_packed(archive, runs, tmp_path):
    archive.pack(runs, tmp_path / "runs.tar.xz")
    archive.unpack(tmp_path / "runs.tar.xz", tmp_path / "again")
    kept = [path for path in (tmp_path / "again").rglob("*") if path.is_file()]
    assert {path.name for path in kept} >= {files.CONFIG, files.SCORES, files.INSTANCES}
    assert not any(path.suffix == ".ckpt" for path in kept)
    for path in kept:
        assert path.read_bytes() == (runs / path.relative_to(tmp_path / "again")).read_bytes()
    before, after = (find_runs(folder).runs for folder in (runs, tmp_path / "again"))
    assert [run.row() for run in before] == [run.row() for run in after]
    archive.pack(tmp_path / "again", tmp_path / "second.tar.xz")
    assert (tmp_path / "second.tar.xz").read_bytes() == (tmp_path / "runs.tar.xz").read_bytes()


def test_an_archive_has_no_text_of_the_test_set(archive, runs, tmp_path):
    archive.pack(runs, tmp_path / "runs.tar.xz")
    sources = [source for source, _ in archive.read_test(runs / "wait_k")]
    with tarfile.open(tmp_path / "runs.tar.xz") as packed:
        content = packed.extractfile(f"wait_k/{files.INSTANCES}")
        assert content is not None
        log = content.read().decode()
    assert '"source": ""' in log
    assert not any(source in log for source in sources)


def test_logs_of_other_text_are_not_packed_and_stay_where_they_are(archive, runs, tmp_path):
    archive.pack(runs, tmp_path / "runs.tar.xz")
    other = runs / "wait_k" / "evaluation" / "valid-k1" / files.INSTANCES
    copytree(runs / "wait_k" / "evaluation" / "test-k1", other.parent)
    lines = [json.loads(line) for line in other.read_text(encoding="utf-8").splitlines()]
    lines += [{**lines[-1], "index": len(lines)}]
    other.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    with pytest.raises(SystemExit, match="this is not a log of the run's test set"):
        archive.pack(runs, tmp_path / "more.tar.xz")
    before = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    with pytest.raises(SystemExit, match="exists: unpack into a new folder"):
        archive.unpack(tmp_path / "runs.tar.xz", runs)
    assert before == {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}


def test_other_text_is_refused(archive, runs, tmp_path):
    manifest = runs / "wait_k" / files.MANIFEST
    known = read_json(manifest)["splits"]["test"]["source_sha256"]
    manifest.write_text(manifest.read_text().replace(known, "0" * 64))
    with pytest.raises(SystemExit, match="its test set is not the one"):
        archive.pack(runs, tmp_path / "runs.tar.xz")
