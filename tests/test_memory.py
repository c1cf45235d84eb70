"""Memory that runs out is one line that names what to lower, and leaves the earlier run."""

from __future__ import annotations

import shutil

import pytest
import torch

from simulmt.errors import UserError
from simulmt.system import memory
from simulmt.system.memory import enough_memory
from simulmt.training.module import TranslationModule
from small_runs import run


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), r"has run out: lower x"),
        (
            RuntimeError(
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"
            ),
            r"\(an allocation of 8 bytes failed\): lower x",
        ),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has"),
            r"\(an allocation of 20.00 MiB failed\): lower x",
        ),
    ],
)
def test_memory_that_runs_out_is_one_line(error, said):
    with pytest.raises(UserError, match=f"memory .*{said}$"), enough_memory("x"):
        raise error


def test_a_batch_that_is_too_large_leaves_the_earlier_run(
    trained_once, tmp_path, cache, monkeypatch
):
    earlier = trained_once("mechanism=mma_il", "lambda=0.2")
    folder = shutil.copytree(earlier, tmp_path / "run")

    def greedy(*_: object) -> None:
        torch.empty(10**15)

    monkeypatch.setattr(TranslationModule, "training_step", greedy)
    with pytest.raises(UserError, match=r"4000000000000000 bytes.* data.batch_tokens \(now 300\)"):
        run(folder, cache, "seed=2")
    for name in ("test_scores.json", "config.json", "metrics.csv", "checkpoints/best.ckpt"):
        assert (tmp_path / "run@1" / name).read_bytes() == (earlier / name).read_bytes()


def test_an_allocation_beyond_the_free_memory_fails(monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(memory, "_free", lambda: 2.0**34)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with enough_memory("x", "cpu", 2):
        if resource.getrlimit(resource.RLIMIT_DATA) == before:
            pytest.skip("no such limit here: another system")
    with pytest.raises(UserError, match="memory has run out"), enough_memory("x", "cpu", 2):
        torch.empty(2**33)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
