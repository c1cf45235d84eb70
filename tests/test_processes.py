"""Which process of a run speaks for it, and that a process ends on signals and with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from simulmt.system import ending
from simulmt.system.ending import CONTINUES, INTERRUPTED, TERMINATED
from small_runs import ROOT, SMALL

CHILD = """
import os, time
from simulmt.system.ending import end_with
end_with(os.getppid())
print("ready", flush=True)
time.sleep(60)
"""
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


ELASTIC = {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "8"}


@pytest.mark.parametrize(
    ("variables", "first"),
    [
        ({}, True),
        ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4"}, False),
        ({"SLURM_PROCID": "3"}, True),  # of no step
        ({**ELASTIC, "RANK": "4", "LOCAL_RANK": "0"}, False),  # the first of another machine
        ({**ELASTIC, "RANK": "0", "SLURM_PROCID": "1"}, True),  # torchrun numbers again
        ({"RANK": "1", "WORLD_SIZE": "2"}, True),  # left in the environment by something else
        ({"RANK": ""}, True),
    ],
)
def test_the_first_process_is_the_one_that_launchers_number_0(variables, first, monkeypatch):
    for name in ("RANK", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ending.is_first() == first


def test_a_process_ends_with_any_other():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        code = CHILD.replace("os.getppid()", str(other.pid))
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            other.communicate(b"\n", timeout=30)
            assert process.wait(timeout=30) == -signal.SIGKILL


def test_a_process_ends_with_its_killed_parent():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == b"ready\n"
        parent.kill()
        assert parent.communicate(timeout=30)[0] == b"", "the child holds the pipe while it lives"


BEGUN = """
import sys, threading, time
from simulmt.system import ending
ending.begin()
slow = {"torch", "hydra", "numpy"} & {*sys.modules}
assert not slow, slow
ending._PATIENCE = 0.5
ending.handle_signals()
print("ready", flush=True)
"""
BUSY = f"{BEGUN}time.sleep(60)"
LOST = f"""{BEGUN}
try:
    time.sleep(60)
except SystemExit:
    time.sleep(60)
"""


def ended(code: str, number: int | None, **variables: str) -> tuple[int, str]:
    """The exit status of a process that gets a signal once it has begun, and what it says."""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        if number:
            process.send_signal(number)
        try:
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
        return process.returncode, errors


@pytest.mark.parametrize("handler", ["ending.handle_signals()", "signal.signal(15, ending.unwind)"])
def test_a_process_with_our_handlers_can_fork(handler):
    """With them in the forks as well, one pool in ten or so never ended."""
    code = f"import multiprocessing, signal\n{BEGUN}\n{handler}\n" + textwrap.dedent("""
        for _ in range(50):
            with multiprocessing.get_context("fork").Pool(2) as pool:
                assert pool.map(abs, [-1, 2]) == [1, 2]
    """)
    assert ended(code, None) == (0, "")


def test_a_signal_during_a_fork_is_not_lost():
    """Hooks that are registered first run last before a fork: here while signals are blocked."""
    kill = "os.register_at_fork(before=lambda: os.kill(os.getpid(), 15))"
    fork = "if not os.fork():\n    os._exit(0)\ntime.sleep(60)"
    code = f"import os, signal\n{kill}\n{BEGUN}\nsignal.signal(15, ending.unwind)\n{fork}"
    assert ended(code, None) == (TERMINATED, "")


@pytest.mark.parametrize("code", [BUSY, LOST])
def test_sigterm_ends_a_program_with_one_line(code):
    assert ended(code, signal.SIGTERM) == (TERMINATED, "error: terminated\n")


@pytest.mark.parametrize(
    ("number", "status", "word"),
    [(signal.SIGTERM, TERMINATED, "terminated"), (signal.SIGINT, INTERRUPTED, "interrupted")],
)
def test_a_signal_says_how_to_continue(number, status, word):
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code = heard + BUSY.replace("handle_signals()", "handle_signals(lambda: ending.CONTINUES)")
    assert ended(code, number) == (status, f"error: {word}; {CONTINUES}\n")


def test_a_run_of_a_sweep_still_ignores_ctrl_c():
    ignored = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    code = ignored + BUSY.replace("time.sleep(60)", "time.sleep(1)")
    assert ended(code, signal.SIGINT) == (0, "")


VERB = """
import sys, time
from simulmt.programs import command
def busy():
    print("ready", flush=True)
    time.sleep(60)
command.hydra.main = lambda *_, **__: lambda work: busy
sys.argv[1:] = ["source=a", "target=b"]
command.run("align")
"""


def test_sigterm_leaves_no_temporary_files_of_a_verb(tmp_path):
    status, errors = ended(VERB, signal.SIGTERM, TMPDIR=str(tmp_path))
    assert (status, errors) == (TERMINATED, "")
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_an_error_of_all_ranks_is_one_line(tmp_path):
    small = [*SMALL, "trainer=ddp", "trainer.devices=2", "data.valid=1", f"cache={tmp_path}"]
    command = [sys.executable, "train.py", *small, f"hydra.run.dir={tmp_path / 'run'}"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "1 valid pairs are too few for 2 processes" in done.stderr
    assert not (tmp_path / "run").exists()
