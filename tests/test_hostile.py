"""Corrupt and hostile files are rejected: nothing is executed, and nothing is silently wrong.

`tests/faults/files.py` damages every file of a run for every program.
"""

import os
import random
import shutil
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from simulmt.errors import UserError
from simulmt.programs.export import export
from simulmt.saved import checkpoint, exported
from small_runs import configuration, run

pytestmark = pytest.mark.usefixtures("no_pictures")
REJECTED = (UserError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


@pytest.fixture(scope="module")
def finished(trained_once) -> Path:
    return trained_once("mechanism=mma_il", "lambda=0.2")


@pytest.fixture
def content(finished) -> dict:
    return torch.load(finished / "checkpoints" / "last.ckpt", weights_only=True)


@pytest.fixture
def given_away(finished, tmp_path) -> Path:
    export(configuration("export", f"checkpoint={finished}", f"to={tmp_path / 'given'}"))
    return tmp_path / "given"


def flipped(path: Path, places: range) -> Iterator[int]:
    """Flip one bit of the byte at each of these places, one place after the other."""
    whole, draw = path.read_bytes(), random.Random(1)
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        yield place
    path.write_bytes(whole)


def test_a_flipped_bit_is_noticed_or_changes_nothing(tmp_path):
    """In each of all bytes: the numbers, the pickle, and what zip and torch put around them."""
    path, noticed = tmp_path / "a.ckpt", 0
    torch.save({"weights": torch.arange(40.0), "name": "mma_il", "updates": 7}, path)
    size = path.stat().st_size
    for _ in flipped(path, range(0, size, 6)):
        try:
            read = checkpoint.read_torch(path)
        except UserError:
            noticed += 1
        else:
            assert torch.equal(read.pop("weights"), torch.arange(40.0))
            assert read == {"name": "mma_il", "updates": 7}
    assert noticed > size / 20


def test_a_checkpoint_in_which_a_bit_has_flipped_is_rejected(finished, tmp_path):
    path = Path(shutil.copy(finished / "checkpoints" / "best.ckpt", tmp_path))
    with zipfile.ZipFile(path) as archive:
        largest = max(archive.infolist(), key=lambda member: member.file_size)
    place = largest.header_offset + largest.file_size
    for _ in flipped(path, range(place, place + 1)):
        with pytest.raises(UserError, match=r"best\.ckpt"):
            checkpoint.load(path)


def test_an_export_in_which_a_bit_has_flipped_is_rejected(given_away):
    for name in ("model.safetensors", "subwords.model", "config.json"):
        size = (given_away / name).stat().st_size
        for _ in flipped(given_away / name, range(5, size - 1, size // 10)):
            with pytest.raises(REJECTED):
                checkpoint.load(given_away)
    assert checkpoint.load(given_away)


class Call:
    """Pickled, it stands for what a function returns."""

    def __init__(self, function, *arguments) -> None:
        self.call = function, arguments

    def __reduce__(self):
        return self.call


WEIGHT = "model.embedding.weight"


@pytest.mark.parametrize(
    "change",
    [
        {"config": Call(os.system, "touch executed")},
        {"config": Call(eval, "open('executed', 'w')")},
        {"config": {"a": torch.zeros(1)}},
        {"manifest": {"name": "a"}},
        {"needs": {"a]; rm -rf": ""}},
        {"subwords": {"vocab.json": torch.zeros(9)}},
        {"subwords": {}},
        {"subwords": torch.zeros(9, dtype=torch.uint8)},
        lambda weight: weight.to(torch.int8),
        lambda weight: weight[:-1].clone(),
        lambda weight: weight * torch.nan,
        lambda weight: weight.to_sparse(),
        lambda weight: Call(os.system, "touch executed"),
    ],
)
def test_hostile_entries_and_weights_are_rejected(change, content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if isinstance(change, dict):
        content["simulmt"] |= change
    else:
        content["state_dict"][WEIGHT] = change(content["state_dict"][WEIGHT])
    torch.save(content, tmp_path / "bad.ckpt")
    with pytest.raises(REJECTED):
        checkpoint.load(tmp_path / "bad.ckpt").build()
    assert [path.name for path in tmp_path.iterdir()] == ["bad.ckpt"]


@pytest.mark.parametrize("part", ["simulmt", "state_dict"])
def test_a_checkpoint_that_lacks_a_part_is_rejected_in_one_line(part, content, tmp_path):
    torch.save(content | {part: None}, tmp_path / "bad.ckpt")
    with pytest.raises(UserError, match="not one that simulmt wrote"):
        checkpoint.load(tmp_path / "bad.ckpt")


def test_an_export_writes_no_file_that_a_checkpoint_names(content, tmp_path):
    kept = content["simulmt"]["subwords"]
    own = kept if isinstance(kept, dict) else {"subwords.model": kept}
    content["simulmt"]["subwords"] = own | {"../outside": torch.zeros(9, dtype=torch.uint8)}
    torch.save(content, tmp_path / "bad.ckpt")
    to = tmp_path / "deep" / "given"
    export(configuration("export", f"checkpoint={tmp_path / 'bad.ckpt'}", f"to={to}"))
    assert not [*tmp_path.rglob("outside")]
    assert checkpoint.load(to)


def test_a_checkpoint_names_no_file_outside_its_run(content, tmp_path, cache):
    """A best checkpoint is removed once a better one is found."""
    mine, score = tmp_path / "thesis.ckpt", torch.tensor(-1e9)
    mine.write_text("mine")
    paths = ("best_model_path", "kth_best_model_path", "last_model_path")
    for state in content["callbacks"].values():
        state.update(dict.fromkeys(paths, str(mine)), best_k_models={str(mine): score})
        state.update(best_model_score=score, kth_value=score)
    torch.save(content, tmp_path / "bad.ckpt")
    run(tmp_path / "run", cache, f"ckpt_path={tmp_path / 'bad.ckpt'}", "trainer.max_updates=9")
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("kind", ["another protocol", "TorchScript"])
def test_torch_adds_no_warning_to_the_line(kind, tmp_path):
    path = tmp_path / "model.ckpt"
    if kind == "TorchScript":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.script(torch.nn.Linear(2, 2)).save(path)
    else:
        torch.save({"weights": torch.ones(2)}, path, pickle_protocol=4)
    with warnings.catch_warnings(record=True) as shown, pytest.raises(UserError, match="not a che"):
        checkpoint.read_checkpoint(path)
    assert not shown


def test_a_message_has_one_line():
    assert str(UserError("name is 'a\n\tb'; take\ranother")) == "name is 'a b'; take another"


@pytest.mark.parametrize("exists", [True, False])
def test_an_export_is_whole_or_nothing(exists, finished, tmp_path, monkeypatch):
    target, trained = tmp_path / "there", checkpoint.load(finished)
    if exists:
        target.mkdir()
    with monkeypatch.context() as patch:
        full = OSError(28, "No space left on device")
        patch.setattr(exported, "card", Mock(side_effect=full))
        with pytest.raises(UserError, match=r"there .*No space left on device"):
            exported.write(trained, target, {})
    assert [*tmp_path.rglob("*")] == [target] * exists
    exported.write(trained, target, {})
    assert [*tmp_path.iterdir()] == [target]
    assert checkpoint.load(target)
