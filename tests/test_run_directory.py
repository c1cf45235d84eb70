"""Files of a run directory: written whole, read back as they were, refused if damaged."""

from __future__ import annotations

import json

import pytest

from simulmt.errors import UserError
from simulmt.files import run_directory
from simulmt.files.metrics import read_columns
from simulmt.files.run_directory import Training, Traits, check_own, run_of
from simulmt.programs.outcome import Outcome
from simulmt.system.disk import read_record, replacing, write_json

RECORDS = [
    Traits(False, False, {"k": 3, "delta": 0.5}),
    Traits(True, False, {}),
    Training(10, 20, 0, 1.5, None, 1, 2, "cpu"),
    Outcome("failed", "no memory", 2, 1.5, "run"),
]


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_is_read_as_it_was_written(record, tmp_path):
    write_json(tmp_path / "a", record)
    assert read_record(tmp_path / "a", type(record)) == record


@pytest.mark.parametrize("damage", [{"learned": 1}, {"dials": {"k": "three"}}, {"dial": {"k": 3}}])
def test_a_record_of_other_types_is_corrupt(damage, tmp_path):
    whole = {"learned": False, "offline": False, "dials": {"k": 3}}
    write_json(tmp_path / "a", whole | damage)
    with pytest.raises(UserError, match=r"a is absent or corrupt .*; remove it, and run"):
        read_record(tmp_path / "a", Traits)
    del whole["dials"]
    for text in (json.dumps(whole), "[]", "", "\x00"):
        (tmp_path / "a").write_text(text)
        with pytest.raises(UserError, match="corrupt"):
            read_record(tmp_path / "a", Traits)


def test_what_fails_leaves_the_file_before_and_nothing_beside_it(tmp_path):
    write_json(tmp_path / "a", {"b": 1})
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a", {"b": float("nan")})
    with pytest.raises(RuntimeError), replacing(tmp_path / "a") as unfinished:  # noqa: PT012
        unfinished.write_text("half")
        raise RuntimeError
    assert (tmp_path / "a").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_columns_are_those_of_whole_rows_that_have_them_all(tmp_path):
    assert read_columns(tmp_path, "step") == []
    (tmp_path / "metrics.csv").write_text("step,a,b\n0,1.5,\n1,,2\n2,nan,3\n3,4,5\n4,6,7")
    assert read_columns(tmp_path, "step") == [(0,), (1,), (2,), (3,)]
    assert [row[0] for row in read_columns(tmp_path, "step", "a")] == [0, 2, 3]
    assert read_columns(tmp_path, "b", "a")[-1] == (5, 4)
    assert read_columns(tmp_path, "c") == []


def test_a_checkpoint_belongs_to_the_run_around_its_folder(tmp_path):
    assert run_of(tmp_path / "checkpoints" / "best.ckpt") == tmp_path
    assert run_of(tmp_path / "best.ckpt") is None


@pytest.mark.parametrize("name", ["samples", "checkpoints", "wandb", "config.json", "metrics.csv"])
def test_a_directory_that_is_no_run_is_refused_and_left_alone(name, tmp_path):
    place = tmp_path / name
    if place.suffix:
        place.write_text("mine")
    else:
        place.mkdir()
        (place / "thesis.tex").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=f"is not a run directory, but holds {name}, which a run"):
        check_own(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / run_directory.MARK).touch()
    check_own(tmp_path)
