"""Corrupt and hostile files are rejected: nothing is executed, and nothing is silently wrong."""

from __future__ import annotations

import json
import os
import random
import shutil
import zipfile
from pathlib import Path

import pytest
import torch

from simulmt.errors import UserError
from simulmt.files.instances import read_instances
from simulmt.programs.export import export
from simulmt.saved import checkpoint, exported
from simulmt.system.disk import read_json
from small_runs import configuration, run

pytestmark = pytest.mark.usefixtures("no_pictures")
REJECTED = (UserError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


@pytest.fixture(scope="module")
def finished(trained_once) -> Path:
    return trained_once("mechanism=mma_il", "lambda=0.2")


@pytest.fixture(scope="module")
def content(finished) -> dict:
    return torch.load(finished / "checkpoints" / "last.ckpt", weights_only=True)


@pytest.fixture
def given_away(finished, tmp_path) -> Path:
    export(configuration("export", f"checkpoint={finished}", f"to={tmp_path / 'given'}"))
    return tmp_path / "given"


def flip(path: Path, place: int, draw: random.Random) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[place] ^= 1 << draw.randrange(8)
    path.write_bytes(damaged)


def test_a_flipped_bit_is_noticed_or_changes_nothing(tmp_path):
    """In each of all bytes: the numbers, the pickle, and what zip and torch put around them."""
    path, draw, noticed = tmp_path / "a.ckpt", random.Random(1), 0
    kept = {"weights": torch.arange(40.0), "name": "mma_il", "updates": 7}
    torch.save(kept, path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 6):
        path.write_bytes(whole)
        flip(path, place, draw)
        try:
            read = checkpoint.read_torch(path)
        except UserError:
            noticed += 1
        else:
            assert torch.equal(read.pop("weights"), kept["weights"])
            assert read == {"name": "mma_il", "updates": 7}
    assert noticed > len(whole) / 20


def test_a_checkpoint_in_which_a_bit_has_flipped_is_rejected(finished, tmp_path, cache):
    draw = random.Random(1)
    for name in ("best", "last", "step-0000006"):
        path = shutil.copy(finished / "checkpoints" / f"{name}.ckpt", tmp_path)
        with zipfile.ZipFile(path) as archive:
            largest = max(archive.infolist(), key=lambda member: member.file_size)
        flip(Path(path), largest.header_offset + largest.file_size, draw)
        with pytest.raises(UserError, match="is not a checkpoint, or is corrupt"):
            checkpoint.load(Path(path))
        with pytest.raises(UserError, match="is not a checkpoint, or is corrupt"):
            run(tmp_path / "run", cache, f"ckpt_path={path}")


class Call:
    """Pickled, it stands for what a function returns."""

    def __init__(self, function, *arguments) -> None:
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("config", Call(os.system, "touch executed")),
        ("config", Call(eval, "open('executed', 'w')")),
        ("config", []),
        ("config", {}),
        ("config", {"a": torch.zeros(1)}),
        ("manifest", None),
        ("manifest", {"name": "a"}),
        ("needs", ["evil"]),
        ("needs", {"a]; rm -rf": ""}),
        ("needs", {"evil": ["1"]}),
        ("subwords", b""),
        ("subwords", {"vocab.json": 1}),
        ("subwords", {"vocab.json": torch.zeros(9)}),
        ("subwords", {1: torch.zeros(9, dtype=torch.uint8)}),
        ("subwords", torch.zeros(9, dtype=torch.uint8)),
    ],
)
def test_a_hostile_passport_is_rejected(entry, value, content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    passport = content["simulmt"] | {entry: value}
    torch.save(content | {"simulmt": passport}, tmp_path / "bad.ckpt")
    with pytest.raises(REJECTED):
        checkpoint.load(tmp_path / "bad.ckpt").build()
    assert [path.name for path in tmp_path.iterdir()] == ["bad.ckpt"]


@pytest.mark.parametrize(
    "change",
    [
        lambda weight: weight.to(torch.int8),
        lambda weight: weight[:-1].clone(),
        lambda weight: weight * torch.nan,
        lambda weight: "weight",
        lambda weight: weight.to_sparse(),
        lambda weight: weight.to("meta"),
        lambda weight: Call(os.system, "touch executed"),
    ],
)
def test_weights_that_are_no_finite_floats_are_rejected(change, content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    weights = {**content["state_dict"]}
    weights["model.embedding.weight"] = change(weights["model.embedding.weight"])
    torch.save(content | {"state_dict": weights}, tmp_path / "bad.ckpt")
    with pytest.raises(REJECTED):
        checkpoint.load(tmp_path / "bad.ckpt").build()
    assert not (tmp_path / "executed").exists()


def without(tree: dict, *names: str) -> dict:
    """A tree without the entry of this path."""
    first, *rest = names
    return {
        key: without(value, *rest) if key == first else value
        for key, value in tree.items()
        if key != first or rest
    }


@pytest.mark.parametrize(
    "spoil",
    [
        lambda c: without(c, "optimizer_states"),
        lambda c: without(c, "loops"),
        lambda c: c | {"lr_schedulers": []},
        lambda c: c | {"global_step": "six"},
        lambda c: without(c, "loops", "fit_loop", "epoch_progress"),
        lambda c: c | {"optimizer_states": [{}]},
        lambda c: c | {"lr_schedulers": [{"last_epoch": "x"}]},
        lambda c: c | {"callbacks": {k: v | {"best_model_score": "9"} for k, v
                                     in c["callbacks"].items()}},
    ],
)  # fmt: skip
def test_a_state_that_does_not_fit_is_an_error(spoil, content, tmp_path, cache):
    torch.save(spoil(content), tmp_path / "bad.ckpt")
    chosen = (f"ckpt_path={tmp_path / 'bad.ckpt'}", "trainer.max_updates=9")
    with pytest.raises(Exception):  # noqa: B017, PT011  (of whichever library)
        run(tmp_path / "run", cache, *chosen)
    assert not (tmp_path / "run" / "test_scores.json").exists()


def test_a_checkpoint_names_no_file_outside_its_run(content, tmp_path, cache):
    """A best checkpoint is removed once a better one is found."""
    mine = tmp_path / "thesis.ckpt"
    mine.write_text("mine")
    for state in content["callbacks"].values():
        score = torch.tensor(-1e9)
        state |= {"best_model_path": str(mine), "kth_best_model_path": str(mine)}
        state |= {"best_k_models": {str(mine): score}, "last_model_path": str(mine)}
        state |= {"best_model_score": score, "kth_value": score}
    torch.save(content, tmp_path / "bad.ckpt")
    run(tmp_path / "run", cache, f"ckpt_path={tmp_path / 'bad.ckpt'}", "trainer.max_updates=9")
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("text", ["[" * 100_000, '["a"]', "", "\x00", '{"a": 1'])
def test_odd_json_is_rejected(text, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(REJECTED):
        read_json(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delays", [1]),
        ("delays", [1, 10**400]),
        ("delays", [1, -2]),
        ("elapsed", [1.0, 10**400]),
        ("elapsed", [1.0, float("nan")]),
        ("prediction", "\ud800 b"),
        ("prediction", ["a", "b"] * 10**4),
        ("source_length", 3),
        ("index", None),
    ],
)
def test_a_corrupt_line_of_a_log_is_named(name, value, tmp_path):
    line = {"index": 0, "prediction": "a b", "delays": [1, 2], "elapsed": [], "reference": "c",
            "prediction_length": 2, "source": "d e", "source_length": 2}  # fmt: skip
    path = tmp_path / "instances.log"
    path.write_text(json.dumps(line) + "\n")
    assert len(read_instances(path)) == 1
    path.write_text(f"{json.dumps(line)}\n{json.dumps(line | {name: value})}\n")
    with pytest.raises(UserError, match=r"instances.log, line 2: .*decode again") as refused:
        read_instances(path)
    assert len(str(refused.value)) < 500


def test_an_export_in_which_a_bit_has_flipped_is_rejected(given_away):
    draw = random.Random(1)
    for name in ("model.safetensors", "subwords.model", "config.json"):
        whole = (given_away / name).read_bytes()
        for _ in range(20):
            flip(given_away / name, draw.randrange(len(whole) - 1), draw)
            with pytest.raises(REJECTED):
                checkpoint.load(given_away)
            (given_away / name).write_bytes(whole)
    assert checkpoint.load(given_away)


def test_an_export_says_in_names_what_it_needs(given_away):
    described = json.loads((given_away / "config.json").read_text())
    described.pop("sha256")
    for needs in ([["evil", "1"]], [[1, 2]], None, "evil", {"$(evil)": "1"}, {"evil": {"1": 1}}):
        (given_away / "config.json").write_text(json.dumps(described | {"needs": needs}))
        with pytest.raises(UserError):
            checkpoint.load(given_away)


def test_a_message_has_one_line():
    assert str(UserError("name is 'a\n\tb'; take\ranother")) == "name is 'a b'; take another"


@pytest.mark.parametrize("exists", [True, False])
def test_an_export_is_whole_or_nothing(exists, finished, tmp_path, monkeypatch):
    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    target = tmp_path / "there"
    if exists:
        target.mkdir()
    monkeypatch.setattr(exported, "card", full)
    trained = checkpoint.load(finished)
    with pytest.raises(UserError, match=r"there cannot be written \(No space left on device"):
        exported.write(trained, target, {})
    assert [*tmp_path.rglob("*")] == [target] * exists
    monkeypatch.undo()
    exported.write(trained, target, {})
    assert [*tmp_path.iterdir()] == [target]
    assert checkpoint.load(target)
