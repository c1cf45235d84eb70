"""Options that name a device or a named pipe end in one line; a shell's pipe is a file."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import pytest

from simulmt.errors import UserError
from simulmt.options import check_options
from simulmt.programs.train import train
from small_runs import SMALL, configuration

ASKED = {
    "distil": (["checkpoint=x", "to=y", "source=PIPE"], "source"),
    "evaluate": (["checkpoint=x", "source=a", "target=PIPE"], "target"),
    "translate": (["checkpoint=x", "input=PIPE"], "input"),
    "align": (["source=PIPE", "target=b"], "source"),
    "report": (["runs=.", "others={theirs: PIPE}"], "others"),
    "analyse": (["runs=PIPE", "study=by_length"], "runs"),
    "export": (["checkpoint=PIPE", "to=y"], "checkpoint"),
    "serve": (["checkpoint=PIPE"], "checkpoint"),
    "oracle": (["checkpoint=x", "source=PIPE", "target=b", "to=c"], "source"),
    "score": (["log=PIPE", "references=a", "source=b", "documents=c"], "log"),
}


@pytest.fixture
def pipe(tmp_path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.parametrize("verb", ASKED)
def test_a_named_pipe_is_rejected(verb, pipe):
    words, option = ASKED[verb]
    chosen = configuration(verb, *(word.replace("PIPE", str(pipe)) for word in words))
    with pytest.raises(UserError, match=f"^{option} is {pipe}, a device or a named pipe"):
        getattr(import_module(f"simulmt.programs.{verb}"), verb)(chosen)


@pytest.mark.parametrize("option", ["init_from", "data.subwords.model", "ckpt_path"])
def test_training_does_not_wait_for_one(option, pipe, tmp_path, cache):
    chosen = [*SMALL, f"cache={cache}", "mechanism=soft", f"{option}={pipe}"]
    with pytest.raises(UserError, match=str(pipe)):
        train(configuration("train", *chosen), str(tmp_path / "run"))


@pytest.mark.parametrize("place", ["/dev/zero", "/dev/null", "link"])
def test_devices_are_rejected_also_behind_a_link(place, tmp_path):
    (tmp_path / "link").symlink_to("/dev/zero")
    with pytest.raises(UserError, match=r"source is .*, a device or a named pipe"):
        check_options({"source": str(tmp_path / place)}, {"source": Path}, "")


def test_files_folders_and_a_pipe_of_the_shell_are_not(tmp_path):
    reader, writer = os.pipe()  # as in `input=<(zcat FILE)`
    for place in (tmp_path, tmp_path / "new", Path(__file__), Path(f"/dev/fd/{reader}")):
        assert check_options({"source": str(place)}, {"source": Path}, "") == {"source": place}
    os.close(reader)
    os.close(writer)


def test_a_tilde_is_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    asked = {"source": Path, "others": dict[str, Path]}
    given = {"source": "~/a", "others": {"b": "~/b~", "c": "~nobody-here/c"}}
    found = {"b": tmp_path / "b~", "c": Path("~nobody-here/c")}
    assert check_options(given, asked, "") == {"source": tmp_path / "a", "others": found}
