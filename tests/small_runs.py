"""Small runs through the composition root: their options, and what they leave behind."""

from __future__ import annotations

import csv
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path

import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from simulmt.programs.train import train

ROOT = Path(__file__).parents[1]
TINY = [
    "data.train=300",
    "data.valid=9",
    "data.test=11",
    "data.subwords.size=400",
    "data.batch_tokens=300",
    "model.dim=16",
    "model.ffn=16",
    "model.heads=2",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "optim.lr=5e-3",
    "optim.warmup=4",
    "objective.hold=1",
    "objective.warmup=2",
    "trainer.log_every=1",
    "trainer.progress=false",
]
SMALL = [*TINY, "trainer.max_updates=6", "trainer.validate_every=3"]
LONGER = ["trainer.max_updates=90", "trainer.validate_every=90", "optim.warmup=20"]


def configuration(program: str, *overrides: str) -> DictConfig:
    return deepcopy(_composed(program, overrides))


@cache  # composing takes a tenth of a second
def _composed(program: str, overrides: tuple[str, ...]) -> DictConfig:
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return compose(program, [*overrides])


def run(folder: Path, cache: Path, *overrides: str) -> dict:
    chosen = [*SMALL, "mechanism=mma_il", "lambda=0.2", f"cache={cache}", *overrides]
    train(configuration("train", *chosen), str(folder))
    return json.loads((folder / "test_scores.json").read_text())


def weights(folder: Path, name: str = "last.ckpt") -> dict:
    path = folder / "checkpoints" / name
    return torch.load(path, weights_only=True)["state_dict"]


def metrics(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def assert_same_scores(folder: Path, checkpoint: str = "best") -> None:
    again = folder / "evaluation" / f"test-{checkpoint}"
    for one, other in (("test_scores.json", "scores.json"), ("instances.log", "instances.log")):
        assert (again / other).read_bytes() == (folder / one).read_bytes()


def killed(command: Sequence[str], seed: int, has_begun: Callable[[], bool]) -> str:
    """Kill a verb some time after its work has begun, and let the same command end it.

    Returns what the second one printed.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])}
    line = [sys.executable, "-m", "simulmt", *command]
    with subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            while not has_begun() and process.poll() is None:
                time.sleep(0.01)
            time.sleep(random.Random(seed).uniform(0, 2))
        finally:
            process.kill()
    done = subprocess.run(
        line, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def soon(holds: Callable[[], object], seconds: float = 10) -> bool:
    """Whether something holds within a while."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
