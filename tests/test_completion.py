"""Hydra's completion, in bash itself: of `simulmt VERB` and of `python train.py`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from small_runs import ROOT

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="asks bash")
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
