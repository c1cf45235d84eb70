"""A disk that takes no more: one line with the file and the reason; nothing half written."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from types import ModuleType
from unittest.mock import Mock

import pytest
import torch
from omegaconf import OmegaConf

from simulmt.errors import UserError
from simulmt.programs import command
from simulmt.system.disk import check_writable, explain, replacing, write_json, writing
from small_runs import ROOT, run, weights

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_that_cannot_be_written_is_named_with_the_reason(tmp_path):
    said = r"a cannot be written \(No space left on device\); make room"
    with pytest.raises(UserError, match=said), writing(tmp_path / "a"):
        raise FULL
    read_only = OSError(errno.EROFS, os.strerror(errno.EROFS), str(tmp_path))
    assert "Read-only file system; check the path" in explain(read_only)
    assert "the output cannot be written" in explain(FULL)
    with pytest.raises(RuntimeError, match="mistake"), writing(tmp_path):
        raise RuntimeError("mistake")
    with pytest.raises(UserError, match="/proc/none cannot be written"):
        check_writable(type(tmp_path)("/proc/none"))


def test_a_checkpoint_that_torch_cannot_write_leaves_the_one_before(tmp_path):
    write_json(tmp_path / "a", {"b": 1})
    with (
        pytest.raises(UserError, match=r"a cannot be written \(No space left on device"),
        replacing(tmp_path / "a"),
        open("/dev/full", "wb") as file,
    ):
        torch.save({"w": torch.zeros(100_000)}, file)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_run_resumes_from_the_checkpoint_before_the_disk_was_full(tmp_path, cache, no_pictures):
    save, written = torch.save, []

    def until_full(content: object, file: object) -> None:
        written.append(file)
        save(content, file)
        if len(written) > 3:  # best, step and last of the first validation were whole
            raise RuntimeError("unexpected pos") from FULL

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.save", until_full)
        with pytest.raises(UserError, match=r"\.ckpt cannot be written \(No space left"):
            run(tmp_path / "a", cache)
    assert not [*(tmp_path / "a").rglob("*.tmp")]
    run(tmp_path / "a", cache, "ckpt_path=last")
    run(tmp_path / "b", cache)
    resumed, whole = weights(tmp_path / "a"), weights(tmp_path / "b")
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FULL, "error: the output cannot be written (No space left on device)"),
        (OSError(errno.EIO, "Input/output error", "file"), "error: file: Input/output error"),
    ],
)
def test_errors_of_the_system_end_a_program_in_one_line(error, said, capfd, monkeypatch):
    failing = ModuleType("failing")
    failing.failing = Mock(side_effect=error)
    monkeypatch.setitem(sys.modules, "simulmt.programs.failing", failing)
    chosen = OmegaConf.create({"job": {"config_name": "failing"}})
    monkeypatch.setattr(command.HydraConfig, "get", lambda: chosen)
    kept = os.dup(1)
    try:
        with pytest.raises(SystemExit) as end:
            command.work(OmegaConf.create({"plugins": []}))
    finally:
        os.dup2(kept, 1)
        os.close(kept)
    shown = capfd.readouterr().err
    assert (end.value.code, said in shown) == (2, True)
    assert shown.count("\n") == 1


@pytest.mark.slow
def test_an_output_that_is_full_is_one_line(tmp_path, trained_once):
    (tmp_path / "in").write_text("weil Onkel\n")
    place = trained_once("mechanism=mma_il")
    command = [sys.executable, "translate.py", f"checkpoint={place}", f"input={tmp_path / 'in'}"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error: the output cannot be written (No space left on device)")
    assert done.stderr.count("\n") == 1
