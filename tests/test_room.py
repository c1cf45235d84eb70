"""A run never replaces another one: what stands in its directory is set aside, whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from simulmt.errors import UserError
from simulmt.training.resume import alone_in, make_room
from small_runs import metrics, run, weights

pytestmark = pytest.mark.usefixtures("no_pictures")


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def earlier(trained_once, tmp_path) -> Path:
    folder = tmp_path / "run"
    shutil.copytree(trained_once("mechanism=mma_il", "lambda=0.2"), folder)
    (folder / "evaluation" / "valid").mkdir(parents=True)
    (folder / "evaluation" / "valid" / "scores.json").write_text("{}")
    return folder


def test_the_new_run_ends_as_in_an_empty_directory_and_the_earlier_one_is_whole(
    earlier, tmp_path, cache, capsys
):
    before = content(earlier)
    run(earlier, cache, "seed=2", "trainer.average=2")
    assert f"the earlier run in {earlier} is now run@1" in capsys.readouterr().out
    assert content(tmp_path / "run@1") == before
    run(tmp_path / "alone", cache, "seed=2", "trainer.average=2")
    mine, other = content(earlier), content(tmp_path / "alone")
    assert mine.keys() == other.keys()
    for name in ("config.json", "manifest.json", "test_scores.json", "instances.log"):
        assert mine[name] == other[name]
    for name in ("last.ckpt", "best.ckpt", "average.ckpt"):
        one, two = (weights(folder, name) for folder in (earlier, tmp_path / "alone"))
        assert all(torch.equal(one[key], two[key]) for key in two)
    steps = [[row["step"] for row in metrics(f)] for f in (earlier, tmp_path / "alone")]
    assert steps[0] == steps[1]


def test_a_sweep_within_a_run_is_not_set_aside_with_it(earlier):
    inner = shutil.copytree(earlier, earlier / "lambda-0.1")
    with pytest.raises(UserError, match=r"another run, .*lambda-0\.1.*another name=NAME"):
        make_room(earlier, None, None)
    assert (inner / "config.json").exists()


def test_each_earlier_run_has_a_number(earlier):
    make_room(earlier, None, None)
    (earlier / "config.json").write_text("the second")
    make_room(earlier, None, None)
    assert (earlier.with_name("run@1") / "test_scores.json").exists()
    assert (earlier.with_name("run@2") / "config.json").read_text() == "the second"
    assert [path.name for path in earlier.iterdir()] == [".simulmt"]


def test_a_rejected_command_leaves_everything_as_it_was(earlier, tmp_path, cache):
    before = content(tmp_path)
    with pytest.raises(UserError, match="too high"):
        run(earlier, cache, "data.subwords.size=99999")
    after = content(tmp_path)
    del after[".run.lock"]
    assert after == before
    with pytest.raises(UserError, match="too high"):
        run(tmp_path / "some" / "new", cache, "data.subwords.size=99999")
    assert not (tmp_path / "some").exists()


def test_a_run_that_is_training_is_not_touched(earlier, cache):
    before = content(earlier)
    with (
        alone_in(earlier),
        pytest.raises(UserError, match=r"process \d+ on .* is working on .*run"),
    ):
        run(earlier, cache, "seed=2")
    assert content(earlier) == before


@pytest.mark.parametrize("name", ["samples", "checkpoints", "metrics.csv", "checkpoints/last.ckpt"])
def test_nothing_behind_a_link_is_changed(name, earlier, tmp_path, cache):
    outside = tmp_path / "outside"
    (earlier / name).rename(outside)
    if outside.is_dir():
        (outside / "notes.tmp").write_text("mine")
    (earlier / name).symlink_to(outside)
    before = content(outside) or outside.read_bytes()
    with pytest.raises(UserError, match=f"{name} is a symbolic link"):
        run(earlier, cache, "ckpt_path=last", "trainer.max_updates=9")
    run(earlier, cache)
    assert (content(outside) or outside.read_bytes()) == before
    assert not (earlier / name).is_symlink()
    assert (tmp_path / "run@1" / name).is_symlink()


def test_a_run_without_its_configuration_is_set_aside_too(earlier):
    (earlier / "config.json").unlink()
    make_room(earlier, None, None)
    assert (earlier.with_name("run@1") / "checkpoints" / "best.ckpt").exists()
