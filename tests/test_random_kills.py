"""Kills at random moments of reading, encoding and training: the same command goes on."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from pipeline import write_corpus

from commands import ROOT
from small_runs import TINY, weights

KILLS = 20
PAIRS = 40_000  # enough to be read by several processes
OPTIONS = [option for option in TINY if not option.startswith("data.")]


@pytest.mark.slow
def test_twenty_kills_change_no_digit(tmp_path: Path) -> None:
    write_corpus(tmp_path, PAIRS)
    began = time.monotonic()
    assert finish(start(tmp_path, "whole")) == 0
    lasted = time.monotonic() - began
    rng, killed = random.Random(1), 0
    while killed < KILLS:
        process = start(tmp_path, "killed")
        try:
            # a third of the kills come early, where the cache is written
            process.wait(rng.uniform(0, lasted if killed % 3 else lasted / 3))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        if finish(process) == 0:
            check(tmp_path)
            for place in ("killed", "killed.cache"):
                shutil.rmtree(tmp_path / place)
    assert finish(start(tmp_path, "killed")) == 0
    check(tmp_path)


def check(folder: Path) -> None:
    """No digit differs from the run that was left alone, and nothing unfinished is left."""
    whole, again = (weights(folder / name) for name in ("whole", "killed"))
    assert all(torch.equal(value, again[name]) for name, value in whole.items())
    scores = [(folder / name / "test_scores.json").read_text() for name in ("whole", "killed")]
    assert scores[0] == scores[1]
    assert not [*(folder / "killed").rglob("*.tmp")]


def start(folder: Path, name: str) -> subprocess.Popen[bytes]:
    """The command that trains a run, in a process group of its own."""
    text = ["data=text", f"data.root={folder}", "data.source=de", "data.target=en"]
    sizes = ["data.subwords.size=500", "data.batch_tokens=300", "mechanism=mma_il", "lambda=0.2"]
    length = ["trainer.max_updates=60", "trainer.validate_every=10", "optim.warmup=10"]
    places = [f"cache={folder / name}.cache", f"hydra.run.dir={folder / name}", "ckpt_path=last"]
    command = [sys.executable, "train.py", *text, *OPTIONS, *sizes, *length, *places]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[bytes]) -> int:
    """The exit status of a command, once it and all that it has started are gone."""
    status = process.wait(300)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return status
        time.sleep(0.05)
    raise AssertionError("a process is left")
