"""The help shows the configuration files and their choices; bash completes commands."""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simulmt.errors import UserError
from simulmt.programs.cli import VERBS, main
from simulmt.programs.help import explain, usage

ROOT = Path(__file__).parents[1]
CONF = ROOT / "conf"


def test_every_verb_has_a_file_and_the_usage_names_it():
    assert sorted(VERBS) == sorted(path.stem for path in CONF.glob("[!_]*.yaml"))
    for verb in VERBS:
        first, second, *_ = (CONF / f"{verb}.yaml").read_text().splitlines()
        assert f"{first[2:]}\n{second[2:]}" in usage(VERBS)
        assert (CONF / f"{verb}.yaml").read_text() in explain(verb, []) + "\n"


def test_output_is_utf_8_in_every_locale(monkeypatch):
    """A path has block characters, which ended a training before its scores were written."""
    written = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", written)
    monkeypatch.setattr(sys, "argv", ["simulmt", "--version"])
    main()
    print("█", flush=True)
    assert written.buffer.getvalue().decode().endswith("█\n")


def test_a_choice_adds_its_file_and_groups_list_their_choices():
    text = explain("train", ["mechanism=milk", "lambda=0.2"])
    assert (CONF / "mechanism/milk.yaml").read_text() in text + "\n"
    assert "policy: adaptive_wait_k, " in explain("evaluate", [])
    for path in (CONF / "mechanism").glob("*.yaml"):
        assert path.stem in text


def test_presets_are_listed_without_the_parts_that_they_share():
    text = explain("train", [])
    assert all(name in text for name in ("milk/table3, ", "multi30k_cpu, "))
    assert not any(name in text for name in ("_common", "wandb/sweep"))  # the latter is W&B's own
    assert "MILk Table 3" in explain("train", ["experiments=milk/table3"])
    with pytest.raises(UserError, match=r"mechanism.*'milkk'.*mma_il"):
        explain("train", ["mechanism=milkk"])


def test_the_example_of_a_package_is_explained(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples" / "catch_up")
    text = explain("train", ["plugins=[catch_up]", "mechanism=catch_up"])
    assert "catch_up, emma" in text
    assert "\nsteady: 6 " in text


def test_the_help_waits_for_no_framework():
    code = """
import sys, simulmt.programs.cli, simulmt.programs.help
print([name for name in ("torch", "hydra", "omegaconf", "numpy", "rich") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_reader_that_leaves_early_sees_no_traceback():
    command = f"set -o pipefail; {sys.executable} -m simulmt train --help | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("  -m, --multirun  ")


ASK = """
eval "$({program} -sc install=bash)"
COMP_LINE={line!r} COMP_POINT=${{#COMP_LINE}} COMP_CWORD={number}
hydra_bash_completion
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def commands(tmp_path_factory) -> Path:
    """A folder with the command `simulmt`, as an installation makes it."""
    path = tmp_path_factory.mktemp("bin") / "simulmt"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -m simulmt "$@"\n')
    path.chmod(0o755)
    return path.parent


@pytest.mark.skipif(shutil.which("bash") is None, reason="asks bash")
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("simulmt tr", ["train", "translate"]),
        ("simulmt train mechanism=milk mechanism.no", ["mechanism.noise="]),
        pytest.param("simulmt evaluate dial.f", ["dial.first_read="], marks=pytest.mark.slow),
        pytest.param("python train.py teacher=jo", ["teacher=joint"], marks=pytest.mark.slow),
    ],
)
def test_bash_completes(line, found, commands):
    program = "python train.py" if line.startswith("python") else "simulmt"
    asked = ASK.format(program=program, line=line, number=len(line.split()) - 1)
    path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src")}
    answer = subprocess.check_output(["bash", "-c", asked], cwd=ROOT, env=environment, text=True)
    assert answer.split() == found
