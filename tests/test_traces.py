"""What a command leaves of the folders that were made for it."""

from __future__ import annotations

import pytest

from simulmt.programs.traces import expect, tidy
from simulmt.run_directory import CONFIG, LOG


@pytest.mark.parametrize(
    ("written", "stays"), [([], False), ([LOG, "multirun.yaml"], False), ([LOG, CONFIG], True)]
)
def test_folders_go_unless_a_run_has_begun(written, stays, tmp_path):
    folder = tmp_path / "runs" / "name"
    expect(folder)
    folder.mkdir(parents=True)
    for name in written:
        (folder / name).touch()
    tidy()
    assert folder.exists() == (tmp_path / "runs").exists() == stays
    assert {path.name for path in folder.glob("*")} == ({*written} if stays else set())


def test_another_process_may_have_tidied_before(tmp_path, monkeypatch):
    folder = tmp_path / "runs" / "name"
    expect(folder)
    folder.mkdir(parents=True)
    (folder / LOG).touch()
    listed = [*folder.iterdir()]
    (folder / LOG).unlink()
    monkeypatch.setattr("pathlib.Path.iterdir", lambda _: iter(listed))
    tidy()
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_was_there_is_left_alone(tmp_path):
    expect(tmp_path)
    tidy()
    assert tmp_path.exists()
