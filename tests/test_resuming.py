"""A run that goes on: resumed, stopped again, or replaced; what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from simulmt.errors import UserError
from simulmt.files.run_directory import step_checkpoints
from simulmt.programs.evaluate import evaluate
from simulmt.training.callbacks import Patience
from simulmt.training.resume import make_room, remedy
from small_runs import LONGER, assert_same_scores, configuration, metrics, run, weights

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture(scope="module")
def finished(trained_once) -> Path:
    return trained_once("mechanism=mma_il", "lambda=0.2")


@pytest.fixture(scope="module")
def averaged(tmp_path_factory, cache) -> Path:
    """The same training; an average is kept of it, and only every second update is logged."""
    folder = tmp_path_factory.mktemp("averaged")
    run(folder, cache, "trainer.average=2", "trainer.log_every=2")
    return folder


def test_a_resumed_run_ends_where_an_uninterrupted_one_does(finished, tmp_path, cache):
    """`ckpt_path=last` starts anew where there is no checkpoint."""
    run(tmp_path, cache, "ckpt_path=last", "trainer.max_updates=3")
    run(tmp_path, cache, "ckpt_path=last")
    for name, value in weights(finished).items():
        assert torch.equal(value, weights(tmp_path)[name]), name
    old, new = ([row["train/loss"] for row in metrics(f)] for f in (finished, tmp_path))
    assert [loss for loss in new if loss] == [loss for loss in old if loss]
    record = json.loads((tmp_path / "training.json").read_text())
    assert (record["updates"], record["resumed_at"]) == (6, 3)
    assert record["seconds_since"] == 0  # of both parts


@pytest.mark.filterwarnings("ignore:The dirpath has changed")
@pytest.mark.parametrize(("written", "since"), [(True, 0), (False, 6)])
def test_the_seconds_of_all_parts_are_the_cost(written, since, finished, tmp_path, cache):
    copy = shutil.copytree(finished, tmp_path / "copy")
    file = copy / "training.json"
    before = json.loads(file.read_text()) | {"seconds": 5000.0}
    file.write_text(json.dumps(before) if written else "{")
    run(copy, cache, "trainer.max_updates=9", "ckpt_path=last")
    after = json.loads(file.read_text())
    assert after["seconds_since"] == since
    assert (after["seconds"] > 5000) == written


@pytest.mark.slow
def test_resuming_between_accumulated_batches(tmp_path, cache):
    """An epoch is a multiple of the accumulated batches, so no update is cut in two."""
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    options = ["trainer.accumulate=4", "data.train=150", "data.batch_tokens=200"]
    run(whole, cache, *options)
    run(halves, cache, *options, "trainer.max_updates=3")
    run(halves, cache, *options, "ckpt_path=last")
    assert (whole / "checkpoints" / "step-0000006.ckpt").exists()
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(halves)[name]), name


def test_the_average_is_that_of_the_last_checkpoints(averaged):
    parts = [weights(averaged, f"step-000000{step}.ckpt") for step in (3, 6)]
    for name, value in weights(averaged, "average.ckpt").items():
        torch.testing.assert_close(value, (parts[0][name] + parts[1][name]) / 2)


def test_the_average_is_what_is_tested(averaged, tmp_path):
    copy = shutil.copytree(averaged, tmp_path / "copy")
    evaluate(configuration("evaluate", f"checkpoint={copy}", "device=cpu"))
    assert_same_scores(copy, "average")


def test_a_run_that_goes_back_keeps_no_later_checkpoint(averaged, tmp_path):
    copy = shutil.copytree(averaged, tmp_path / "copy")
    place, old = copy / "checkpoints", "step-0000003.ckpt"
    shutil.copy(place / "last.ckpt", place / "best.ckpt")  # from update 6
    make_room(copy, place / old, 3)
    assert [path.name for path in place.iterdir()] == [old]
    shutil.copy(place / old, place / "best.ckpt")
    make_room(copy, place / old, 3)
    assert {path.name for path in place.iterdir()} == {old, "best.ckpt"}


@pytest.mark.filterwarnings("ignore:The dirpath has changed")
def test_an_average_is_none_once_its_run_goes_on(averaged, tmp_path, cache):
    copy = shutil.copytree(averaged, tmp_path / "copy")
    assert (copy / "checkpoints" / "average.ckpt").exists()
    run(copy, cache, "trainer.max_updates=9", "ckpt_path=last")
    assert not (copy / "checkpoints" / "average.ckpt").exists()
    assert [path.name for path in step_checkpoints(copy)] == ["step-0000009.ckpt"]


def test_a_run_is_set_aside_only_once_its_successor_can_start(
    finished, trained_once, tmp_path, cache
):
    folder = shutil.copytree(finished, tmp_path / "copy")
    teacher = trained_once(*LONGER, "mechanism=soft", "decoding.beam=1")
    other = ["data.seed=5", "teacher=pretrained", f"teacher.checkpoint={teacher}"]
    for options, message in (
        (["data.subwords.size=99999"], "too high"),
        (["data.batch_tokens=3"], "raise it to"),
        (["data.test=0"], "the test split is empty"),
        (other, "the data are not those of the model"),
    ):
        with pytest.raises(UserError, match=message):
            run(folder, cache, *options)
        assert (folder / "checkpoints" / "best.ckpt").exists()
        assert (folder / "test_scores.json").exists()
        assert (folder / "config.json").read_bytes() == (finished / "config.json").read_bytes()


@pytest.mark.parametrize(
    "change",
    ["data.seed=5", "model.ffn=24", "mechanism.noise=1", "optim.lr=1", "trainer.accumulate=2"],
)
def test_resuming_with_something_else_is_refused(change, finished, tmp_path, cache):
    checkpoint = finished / "checkpoints" / "last.ckpt"
    with pytest.raises(UserError, match=r"with other settings|data are not those"):
        run(tmp_path, cache, f"ckpt_path={checkpoint}", change)


def test_other_settings_do_not_choose_among_the_checkpoints_of_a_folder(finished, tmp_path, cache):
    folder = shutil.copytree(finished, tmp_path / "copy")
    more = ["ckpt_path=last", "trainer.max_updates=9"]
    with pytest.raises(UserError, match=r"lambda was 0\.2, is 0\.4.*last.ckpt name=NEW"):
        run(folder, cache, *more, "lambda=0.4")
    assert (folder / "test_scores.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["trainer.max_updates=9", "seed=2"], "cannot resume within an epoch"),
        (["trainer.max_updates=9", "data.batch_tokens=500"], "restore the checkpoint's data"),
        (["trainer.max_updates=8", "trainer.validate_every=4"], "no multiple of .*every=4: set it"),
        (["trainer.max_updates=3"], "was trained for 6 updates, but trainer.max_updates is 3"),
    ],
)
def test_a_refused_resume_takes_no_scores(options, message, finished, tmp_path, cache):
    folder = shutil.copytree(finished, tmp_path / "copy")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match=message):
        run(folder, cache, "ckpt_path=last", *options)
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_in_double_precision_resumes_to_the_last_digit(tmp_path, cache):
    whole, halves, double = tmp_path / "whole", tmp_path / "halves", "trainer.precision=64-true"
    run(whole, cache, double)
    run(halves, cache, double, "trainer.max_updates=3")
    run(halves, cache, double, "ckpt_path=last")
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(halves)[name]), name


def test_a_run_goes_on_only_with_the_start_that_it_had(finished, tmp_path, cache):
    folder = shutil.copytree(finished, tmp_path / "copy")
    begun = json.loads((folder / "provenance.json").read_text())
    (folder / "provenance.json").write_text(json.dumps(begun | {"init_sha256": "0" * 64}))
    more = ["ckpt_path=last", "trainer.max_updates=9", f"init_from={finished}"]
    with pytest.raises(UserError, match=r"the file of init_from=.* changed after .* began"):
        run(folder, cache, *more)


def test_patience_begins_anew_in_another_folder(tmp_path):
    state = Patience(2, tmp_path).state_dict() | {"wait_count": 2, "best_score": torch.tensor(40.0)}
    for waited in (0, 2):  # of another run, then of this one
        patience = Patience(3, tmp_path)
        patience.load_state_dict(state)
        assert (patience.wait_count, patience.patience) == (waited, 3)
        (tmp_path / "checkpoints").mkdir(exist_ok=True)
        (tmp_path / "checkpoints" / "best.ckpt").touch()


def test_a_finished_run_says_so_and_stays(finished, tmp_path, cache, capsys):
    folder = shutil.copytree(finished, tmp_path / "copy")
    before = {path: path.stat().st_mtime_ns for path in (folder / "checkpoints").iterdir()}
    run(folder, cache, "ckpt_path=last", "name=renamed")
    assert "is already finished: increase trainer.max_updates" in capsys.readouterr().out
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "checkpoints").iterdir()}
    run(folder, cache, "ckpt_path=last", "trainer.max_updates=9")
    assert json.loads((folder / "training.json").read_text())["updates"] == 9


def test_a_run_that_goes_on_from_another_chooses_among_its_own(finished, tmp_path, cache):
    """The best checkpoint of the other run is not in this one's folder."""
    content = torch.load(finished / "checkpoints" / "last.ckpt")
    for state in content["callbacks"].values():
        if "best_model_score" in state:
            state["best_model_score"] = state["kth_value"] = torch.tensor(1e9)
            state["best_k_models"] = {path: torch.tensor(1e9) for path in state["best_k_models"]}
    torch.save(content, tmp_path / "other.ckpt")
    folder = tmp_path / "run"
    run(folder, cache, f"ckpt_path={tmp_path / 'other.ckpt'}", "trainer.max_updates=9")
    assert (folder / "checkpoints" / "best.ckpt").exists()
    assert (folder / "test_scores.json").exists()


def test_a_run_resumes_where_it_was_moved_to(finished, tmp_path, cache):
    """The best score so far is kept: a worse model must not replace the best checkpoint."""
    first, moved = tmp_path / "first", tmp_path / "moved"
    run(first, cache, "trainer.max_updates=3")
    first.rename(moved)
    run(moved, cache, "ckpt_path=last")
    for name in ("last.ckpt", "best.ckpt"):
        for key, value in weights(finished, name).items():
            assert torch.equal(value, weights(moved, name)[key])
    states = [torch.load(f / "checkpoints" / "last.ckpt")["callbacks"] for f in (finished, moved)]
    for whole, resumed in zip(*map(dict.values, states), strict=True):
        for key in ("best_model_score", "best_k_models"):
            assert whole.get(key) == resumed.get(key)
    assert str(tmp_path) not in str(states[1])


def test_a_line_of_progress_comes_after_the_checkpoint_that_a_remedy_promises(
    tmp_path, cache, monkeypatch
):
    said = []

    def print_line(line: str) -> None:
        said.append((line.partition(" ")[0], remedy(tmp_path, 20)))

    monkeypatch.setattr("simulmt.training.progress.print_line", print_line)
    assert remedy(tmp_path, 20) == "nothing is saved yet: the first validation is at update 20"
    run(tmp_path, cache)
    assert {words for name, words in said if name == "update"} == {
        "the same command with ckpt_path=last resumes from the last validation"
    }
