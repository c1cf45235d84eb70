"""The archive of a comparison: what a report reads comes back to the byte, without the text."""

from __future__ import annotations

import importlib
import tarfile
from collections.abc import Iterator
from shutil import copytree
from types import ModuleType

import pytest

from simulmt.analysis.runs.found import find_runs
from simulmt.files import run_directory as files
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
    sources = archive.read_test(runs / "wait_k").sources
    with tarfile.open(tmp_path / "runs.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    log = (tmp_path / "wait_k" / files.INSTANCES).read_text(encoding="utf-8")
    assert '"source": ""' in log
    assert not any(source in log for source in sources)


def test_other_text_is_refused(archive, runs, tmp_path):
    manifest = runs / "wait_k" / files.MANIFEST
    split = archive.read_test(runs / "wait_k")
    manifest.write_text(manifest.read_text().replace(split.sha256[0], "0" * 64))
    with pytest.raises(SystemExit, match="its test set is not the one"):
        archive.pack(runs, tmp_path / "runs.tar.xz")
