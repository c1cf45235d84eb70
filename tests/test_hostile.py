"""Damaged and hostile files end in one line; nothing is executed, and nothing fills the memory."""

from __future__ import annotations

import json
import os
import random
import shutil
import zipfile
from pathlib import Path

import pytest
import torch

from simulmt.data.marian import FILES
from simulmt.decoding.instance import read_instances
from simulmt.errors import UserError
from simulmt.programs.export import export
from simulmt.run_directory import read_json
from simulmt.saved import checkpoint, exported
from simulmt.saved.archive import open_archive
from small_runs import configuration, run

pytestmark = pytest.mark.usefixtures("no_pictures")
GIGABYTES = 5 * 10**9


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


def refuse(path: Path, message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        checkpoint.load(path)
    assert "\n" not in str(refused.value)


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
            read = open_archive(path)
        except UserError:
            noticed += 1
        else:
            assert torch.equal(read.pop("weights"), kept["weights"])
            assert read == {"name": "mma_il", "updates": 7}
    assert noticed > len(whole) / 20


def test_a_checkpoint_in_which_a_bit_has_flipped_is_refused(finished, tmp_path, cache):
    draw = random.Random(1)
    for name in ("best", "last", "step-0000006"):
        path = shutil.copy(finished / "checkpoints" / f"{name}.ckpt", tmp_path)
        with zipfile.ZipFile(path) as archive:
            largest = max(archive.infolist(), key=lambda member: member.file_size)
        flip(Path(path), largest.header_offset + largest.file_size, draw)
        refuse(Path(path), "is no readable checkpoint: .* or damaged; take another checkpoint")
        with pytest.raises(UserError, match="is no readable checkpoint"):
            run(tmp_path / "run", cache, f"ckpt_path={path}")


def repacked(path: Path, target: Path, method: int, twice: str = "") -> Path:
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w", method) as new:
        for member in old.infolist():
            new.writestr(member.filename, old.read(member))
            if twice and member.filename.endswith(twice):
                new.writestr(member.filename.upper(), old.read(member))
    return target


def test_an_archive_that_grows_or_is_ambiguous_is_refused(finished, content, tmp_path):
    zeros = content | {"bomb": torch.zeros(10**7)}
    torch.save(zeros, tmp_path / "zeros.ckpt")
    bomb = repacked(tmp_path / "zeros.ckpt", tmp_path / "bomb.ckpt", zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 1e6
    refuse(bomb, "no readable checkpoint")
    last = finished / "checkpoints" / "last.ckpt"
    refuse(repacked(last, tmp_path / "two.ckpt", 0, "data.pkl"), "no readable checkpoint")
    (tmp_path / "folder.ckpt").mkdir()
    with pytest.raises(UserError, match="no readable checkpoint"):
        checkpoint.read_checkpoint(tmp_path / "folder.ckpt")


class Call:
    """Pickled, it stands for what a function returns."""

    def __init__(self, function, *arguments) -> None:
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def laughs() -> dict:
    """30 lists of 10 lists each, which have 10**30 items together."""
    value = ["ha"] * 10
    for _ in range(30):
        value = [value] * 10
    return {"mechanism": value}


def cycle() -> dict:
    config: dict = {}
    return config | {"mechanism": [config, config.setdefault("model", config)]}


def deep() -> dict:
    value: dict = {}
    for _ in range(100):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("config", Call(os.system, "touch executed"), "no readable checkpoint"),
        ("config", Call(bytearray, GIGABYTES), "no readable checkpoint"),
        ("config", [], "in its config, it must be of type dict"),
        ("config", laughs(), "in its config, there are more than 20 levels"),
        ("config", cycle(), "in its config, there are more than 20 levels"),
        ("config", deep(), "in its config, there are more than 20 levels"),
        ("config", {"a": torch.nan}, "of type float is not plain, or not finite"),
        ("config", {"a": torch.zeros(1)}, "of type Tensor is not plain, or not finite"),
        ("config", {}, "lacks mechanism, of type dict"),
        ("manifest", None, "in its manifest, it must be of type dict"),
        ("manifest", {"name": "a"}, "its manifest lacks source_language, of type str"),
        ("needs", ["evil"], "in its needs, it must be of type dict"),
        ("needs", {"a]; rm -rf": ""}, "it needs 'a]; rm -rf' of version '', which is no plugin"),
        ("needs", {"evil": "\x1b[2J"}, r"of version '.x1b\[2J', which is no plugin"),
        ("needs", {"evil": ["1"]}, r"of version \['1'\], which is no plugin"),
        ("subwords", torch.zeros(1, dtype=torch.uint8).expand(GIGABYTES), "it lacks subwords"),
        ("subwords", b"", "no readable checkpoint|it lacks subwords"),
        ("subwords", {"vocab.json": 1}, "it lacks subwords"),
        ("subwords", {"vocab.json": torch.zeros(9)}, "it lacks subwords"),
        (
            "subwords",
            {1: torch.zeros(9, dtype=torch.uint8)},
            "the subwords lack source.spm, target",
        ),
        ("subwords", dict.fromkeys(FILES, torch.zeros(9, dtype=torch.uint8)), "json is damaged"),
        ("subwords", torch.zeros(9, dtype=torch.uint8), "bytes that are no SentencePiece model"),
    ],
)
def test_a_hostile_passport_is_refused(entry, value, message, content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    passport = content["simulmt"] | {entry: value}
    torch.save(content | {"simulmt": passport}, tmp_path / "bad.ckpt")
    refuse(tmp_path / "bad.ckpt", message)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.ckpt"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weight: weight.to(torch.int8), "is no tensor of 32 or 64-bit floats"),
        (lambda weight: weight.to(torch.complex64), "is no tensor of 32 or 64-bit floats"),
        (lambda weight: weight.half(), "is no tensor of 32 or 64-bit floats"),
        (lambda weight: weight.to(torch.float8_e4m3fn), "no readable checkpoint"),
        (lambda weight: torch.zeros(1).expand(GIGABYTES, 16), "is no tensor of 32 or 64-bit"),
        (lambda weight: "weight", "is no tensor of 32 or 64-bit floats"),
        (lambda weight: weight.double(), "are of several precisions"),
        (lambda weight: weight.to_sparse(), "no readable checkpoint"),
        (lambda weight: weight.to("meta"), "no readable checkpoint"),
    ],
)
def test_weights_that_are_no_floats_are_refused(change, message, content, tmp_path):
    weights = {**content["state_dict"]}
    weights["model.embedding.weight"] = change(weights["model.embedding.weight"])
    torch.save(content | {"state_dict": weights}, tmp_path / "bad.ckpt")
    refuse(tmp_path / "bad.ckpt", message)


def without(tree: dict, *names: str) -> dict:
    """A tree without the entry of this path."""
    first, *rest = names
    return {
        key: without(value, *rest) if key == first else value
        for key, value in tree.items()
        if key != first or rest
    }


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda c: without(c, "optimizer_states"), "lacks optimizer_states.*; give last.ckpt"),
        (lambda c: without(c, "callbacks"), "it lacks callbacks"),
        (lambda c: without(c, "loops"), "it lacks loops"),
        (lambda c: c | {"lr_schedulers": []}, "it lacks an optimiser"),
        (lambda c: c | {"global_step": "six"}, "it lacks global_step"),
        (lambda c: without(c, "loops", "fit_loop", "epoch_progress"), "ValueError: epoch_progress"),
        (lambda c: c | {"optimizer_states": [{}]}, "cannot be resumed from .KeyError"),
        (lambda c: c | {"lr_schedulers": [{"last_epoch": "x"}]}, "cannot be resumed from .KeyErr"),
        (lambda c: c | {"callbacks": {k: v | {"best_model_score": "9"} for k, v
                                      in c["callbacks"].items()}}, "the score of best"),
    ],
)  # fmt: skip
def test_a_state_that_does_not_fit_ends_in_one_line(spoil, message, content, tmp_path, cache):
    torch.save(spoil(content), tmp_path / "bad.ckpt")
    chosen = (f"ckpt_path={tmp_path / 'bad.ckpt'}", "trainer.max_updates=9")
    with pytest.raises(UserError, match=message) as refused:
        run(tmp_path / "run", cache, *chosen)
    assert "\n" not in str(refused.value)


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


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a": ' * 500 + "1" + "}" * 500,
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": ' + "9" * 4000 + "}",
        '{"a": "\\ud800"}',
        '["a"]',
        "",
        '{"a": "' + "x" * (10 << 20) + '"}',
    ],
)
def test_odd_json_is_damaged(text, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"config.json is absent or damaged") as refused:
        read_json(path)
    assert len(str(refused.value)) < 400


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_or_a_device_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    for name in ("pipe.json", "zero.json", "loop.json", "."):
        with pytest.raises(UserError, match="is absent or damaged"):
            read_json(tmp_path / name)
        with pytest.raises(UserError, match="cannot be read"):
            read_instances(tmp_path / name)


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
def test_a_damaged_line_of_a_log_is_named(name, value, tmp_path):
    line = {"index": 0, "prediction": "a b", "delays": [1, 2], "elapsed": [], "reference": "c",
            "prediction_length": 2, "source": "d e", "source_length": 2}  # fmt: skip
    path = tmp_path / "instances.log"
    path.write_text(json.dumps(line) + "\n")
    assert len(read_instances(path)) == 1
    path.write_text(f"{json.dumps(line)}\n{json.dumps(line | {name: value})}\n")
    with pytest.raises(UserError, match=r"instances.log, line 2: .*decode again") as refused:
        read_instances(path)
    assert len(str(refused.value)) < 500


def test_an_export_in_which_a_bit_has_flipped_is_refused(given_away):
    draw = random.Random(1)
    for name in ("model.safetensors", "subwords.model", "config.json"):
        whole = (given_away / name).read_bytes()
        for _ in range(20):
            flip(given_away / name, draw.randrange(len(whole) - 1), draw)
            with pytest.raises(UserError) as refused:
                checkpoint.load(given_away)
            assert "\n" not in str(refused.value)
            (given_away / name).write_bytes(whole)
    assert checkpoint.load(given_away)


def test_an_export_says_in_names_what_it_needs(given_away):
    described = json.loads((given_away / "config.json").read_text())
    described.pop("sha256")
    for needs in ([["evil", "1"]], [[1, 2]], None, "evil", {"$(evil)": "1"}, {"evil": {"1": 1}}):
        (given_away / "config.json").write_text(json.dumps(described | {"needs": needs}))
        refuse(given_away, "describes no model|is no plugin")


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
    with pytest.raises(UserError, match=r"there cannot be written \(No space left on device\)"):
        exported.write(trained, target, None, None)
    assert [*tmp_path.rglob("*")] == [target] * exists
    monkeypatch.undo()
    exported.write(trained, target, None, None)
    assert [*tmp_path.iterdir()] == [target]
    assert checkpoint.load(target)
