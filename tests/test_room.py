"""A run that replaces another one: until its first validation the earlier run is whole."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from simulmt.errors import UserError
from simulmt.training import module, room
from simulmt.training.room import make_room, settle
from small_runs import metrics, run, weights

pytestmark = pytest.mark.usefixtures("no_pictures")
UNTOUCHED = {".lock", ".locked_by", ".simulmt"}


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in UNTOUCHED)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def earlier(trained_once, tmp_path) -> Path:
    folder = tmp_path / "run"
    shutil.copytree(trained_once("mechanism=mma_il", "lambda=0.2"), folder)
    (folder / "evaluation" / "valid").mkdir(parents=True)
    (folder / "evaluation" / "valid" / "scores.json").write_text("{}")
    return folder


class Killed(BaseException):
    """Stands for the end of a process."""


def kill_at(operation: int, patches: pytest.MonkeyPatch) -> None:
    """Raise `Killed` in place of the file operation of this number."""
    left = iter(range(operation))

    def counted(real, *given, **named):
        if next(left, None) is None:
            raise Killed
        return real(*given, **named)

    for owner, name in ((os, "replace"), (Path, "unlink"), (Path, "rmdir"), (Path, "rename")):
        real = getattr(owner, name)
        patches.setattr(owner, name, lambda *x, real=real, **named: counted(real, *x, **named))


def test_what_fails_before_the_first_validation_leaves_the_earlier_run(earlier, cache, monkeypatch):
    before = content(earlier)
    with pytest.raises(UserError, match="update 1 is not finite"):
        run(earlier, cache, "optim.lr=1e20", "lambda=1e25", "objective.hold=0", "seed=2")
    assert content(earlier) == before

    def breaks(*_: object) -> None:
        assert content(earlier).items() >= before.items()
        raise Killed

    monkeypatch.setattr(module.TranslationModule, "on_validation_start", breaks)
    with pytest.raises(Killed):
        run(earlier, cache, "seed=2", "logger=tensorboard")
    assert content(earlier) == before


def test_the_new_run_ends_as_in_an_empty_directory(earlier, tmp_path, cache):
    run(earlier, cache, "seed=2", "trainer.average=2")
    run(tmp_path / "alone", cache, "seed=2", "trainer.average=2")
    mine, other = content(earlier), content(tmp_path / "alone")
    assert mine.keys() == other.keys()
    for name in ("config.json", "manifest.json", "test_scores.json", "instances.log"):
        assert mine[name] == other[name]
    for name in ("last.ckpt", "best.ckpt", "average.ckpt"):
        one, two = (weights(folder, name) for folder in (earlier, tmp_path / "alone"))
        assert all(torch.equal(one[key], two[key]) for key in two)
    assert [row["step"] for row in metrics(earlier)] == [
        row["step"] for row in metrics(tmp_path / "alone")
    ]


def test_a_kill_while_the_new_run_takes_over_loses_neither(earlier, monkeypatch):
    """Wherever the move stops, best.ckpt is one of the two, and the next start completes it."""
    new = content(earlier) | {"wandb_id": b"5", "checkpoints/step-0000003.ckpt": b"3"}
    new = {name: b"new " + old for name, old in new.items() if not name.startswith("evaluation")}
    for name in ("test_scores.json", "instances.log", "training.json"):
        del new[name]
    whole = shutil.copytree(earlier, earlier.parent / "whole")
    best = content(earlier)["checkpoints/best.ckpt"]
    for operation in range(200):
        shutil.rmtree(earlier)
        shutil.copytree(whole, earlier)
        stage = make_room(earlier, None, None)
        for name, text in new.items():
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            (stage / name).write_bytes(text)
        killed = False
        with monkeypatch.context() as patches, suppress(Killed):
            kill_at(operation, patches)
            killed = True
            settle(earlier)
            killed = False
        found = (earlier / "checkpoints" / "best.ckpt").read_bytes()
        assert found in (best, b"new " + best)
        settle(earlier)
        assert content(earlier) == new
        if not killed:
            break
    assert operation > 5


def test_a_stage_without_a_validation_is_dropped(earlier):
    before = content(earlier)
    stage = make_room(earlier, None, None)
    assert stage == earlier / ".next"
    (stage / "metrics.csv").write_text("step\n")
    (earlier / "tensorboard").mkdir()
    (earlier / "tensorboard" / "events").touch()
    settle(earlier)
    assert content(earlier) == before
    assert room.make_room(earlier.parent / "fresh", None, None) == earlier.parent / "fresh"
