"""Which process of a run speaks for it, and that a process ends with its parent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from simulmt import processes

CHILD = """
import os, time
from simulmt.ending import end_with
end_with(os.getppid())
print("ready", flush=True)
time.sleep(60)
"""
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


@pytest.mark.parametrize(
    ("variables", "first"),
    [
        ({}, True),
        ({"LOCAL_RANK": "0"}, True),
        ({"LOCAL_RANK": "1"}, False),
        ({"SLURM_PROCID": "3"}, False),
        ({"RANK": "4", "LOCAL_RANK": "0"}, False),  # the first of another machine
        ({"RANK": "0", "SLURM_PROCID": "1"}, True),  # torchrun numbers anew
    ],
)
def test_the_first_process_is_the_one_that_launchers_number_0(variables, first, monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert processes.is_first_process() == first


def test_a_process_on_its_own_has_its_own_values():
    assert processes.rank_and_world_size() == (0, 1)
    assert processes.gather("mine") == ["mine"]


def test_a_process_ends_with_its_killed_parent():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == b"ready\n"
        parent.kill()
        assert parent.communicate(timeout=30)[0] == b"", "the child holds the pipe while it lives"
