"""A disk that takes no more: one line with the file and the reason; nothing half written."""

import errno
import os
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from omegaconf import OmegaConf

from simulmt.errors import UserError
from simulmt.programs import command
from simulmt.system.disk import check_writable, describe_error, writing
from small_runs import run, weights

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_that_cannot_be_written_is_named_with_the_reason(tmp_path):
    with pytest.raises(UserError, match=r"a .*No space left on device"), writing(tmp_path / "a"):
        raise FULL
    read_only = OSError(errno.EROFS, os.strerror(errno.EROFS), str(tmp_path))
    assert "Read-only file system" in describe_error(read_only)
    limit = OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(tmp_path))
    assert "ulimit -n" in describe_error(limit)
    with pytest.raises(UserError, match=r"Too many open files.*ulimit -n"), writing(tmp_path):
        raise limit
    with pytest.raises(RuntimeError, match="mistake"), writing(tmp_path):
        raise RuntimeError("mistake")
    with pytest.raises(UserError, match="/proc/none"):
        check_writable(Path("/proc/none"))


def test_a_run_resumes_from_the_checkpoint_before_the_disk_was_full(
    tmp_path, cache, no_pictures, trained_once
):
    save, written = torch.save, []

    def until_full(content: object, file: object) -> None:
        written.append(file)
        save(content, file)
        if len(written) > 3:  # best, step and last of the first validation were whole
            raise RuntimeError("unexpected pos") from FULL

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.save", until_full)
        with pytest.raises(UserError, match=r"\.ckpt .*No space left"):
            run(tmp_path, cache)
    assert not [*tmp_path.rglob("*.tmp")]
    run(tmp_path, cache, "ckpt_path=last")
    resumed, whole = weights(tmp_path), weights(trained_once("mechanism=mma_il", "lambda=0.2"))
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)


def test_an_error_of_a_library_is_none_of_the_output() -> None:
    """Such as of requests; it has no number, and its traceback is needed."""
    with pytest.raises(TimeoutError, match="slow"), command.in_one_line():
        raise TimeoutError("slow")


@pytest.mark.parametrize("error", [FULL, OSError(errno.EIO, "Input/output error", "file")])
def test_errors_of_the_system_end_a_program_in_one_line(error, capfd, monkeypatch):
    failing = Mock(failing=Mock(side_effect=error))
    monkeypatch.setitem(sys.modules, "simulmt.programs.failing", failing)
    chosen = OmegaConf.create({"job": {"config_name": "failing"}})
    monkeypatch.setattr(command.HydraConfig, "get", lambda: chosen)
    kept = os.dup(1)
    try:
        with pytest.raises(SystemExit, match="2"):
            command.work(OmegaConf.create({"plugins": []}))
    finally:
        os.dup2(kept, 1)
        os.close(kept)
    shown = capfd.readouterr().err
    assert shown.startswith("error: ")
    assert error.strerror in shown
    assert shown.count("\n") == 1


def test_the_limit_of_a_file_and_a_link_to_nothing_have_remedies(tmp_path):
    (tmp_path / "runs").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError) as link:
        (tmp_path / "runs").mkdir(exist_ok=True)
    assert f"the link points, {tmp_path / 'nowhere'}" in describe_error(link.value)
    assert "ulimit -f" in describe_error(OSError(errno.EFBIG, "File too large", "best.ckpt"))
