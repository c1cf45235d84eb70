"""Commands as a user types them, several in one process: importing torch takes seconds.

OmniSTEval's command has a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SEVERAL = """
import json, runpy, sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

answers = []
for program, *arguments in json.load(sys.stdin):
    sys.argv = [program, *arguments]
    out, err, status = StringIO(), StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            run = runpy.run_path if program.endswith(".py") else runpy.run_module
            run(program, run_name="__main__")
        except SystemExit as end:
            status = end.code or 0
    answers.append((status, out.getvalue(), err.getvalue()))
print(json.dumps(answers))
"""


class Answer(NamedTuple):
    status: int
    out: str
    err: str


def type_in(*commands: Sequence[object], cwd: Path = ROOT) -> list[Answer]:
    """Run commands one after the other, each a file or module and its arguments.

    A command may end with `SystemExit`; any other exception fails the test.
    """
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "PYTHONUTF8": "1",  # SimulEval opens files in the locale's encoding
    }
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL],
        input=json.dumps([[*map(str, command)] for command in commands]),
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return [Answer(*answer) for answer in json.loads(done.stdout)]


def omnisteval(folder: Path, *arguments: str) -> dict[str, str]:
    """What OmniSTEval's command finds in the files of a folder, by name.

    It forks, and a fork of the tests' process, which has threads, may hang.
    """
    pytest.importorskip("omnisteval", reason="OmniSTEval is not installed")
    code = "import sys, omnisteval.cli; sys.exit(omnisteval.cli.main())"
    command = [sys.executable, "-c", code, *arguments, "--output_folder", "o"]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=True)
    rows = (folder / "o" / "scores.tsv").read_text("utf-8").splitlines()[1:]
    return dict(row.split("\t") for row in rows)
