"""Memory and disk space of the papers' models, extrapolated from measurements on a CPU.

    python benchmarks/scale.py

docs/scale.md has the figures and the arithmetic. The memory of a step, as in `steps.peak_bytes`, is
measured in float32 with few tokens, and extrapolated to the presets' batches with the formula
c + tokens * (a + b * length). The constant is left out, because gradients are counted separately.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from frame import ROOT, Result, configuration, environment, one_thread, show, summed_up
from pipeline import GIB
from steps import batch, model, peak_bytes, step, vocabulary

from simulmt.data.store import digest_of_file
from simulmt.files.run_directory import CHECKPOINTS, TRAINING
from simulmt.models.model import Model
from simulmt.parts.builders import build_mechanism, outline_model
from simulmt.training.callbacks import count_parameters

PRESETS = {"MILk": "milk/table6_milk", "MMA": "mma/figure2_wmt15_mma_il"}
SIZES = [(tokens, length) for length in (25, 200) for tokens in (2000, 4000)]  # that are measured
ASKED = (25, 50, 200)  # tokens of a sentence; few are longer than 200
FILE = 1 << 28  # bytes that are hashed


def peak(network: Model, config: dict[str, Any], tokens: int, length: int) -> float:
    """GiB of gradients and activations in a step."""
    run = step(network, config, batch(tokens, length, vocabulary(config)))
    with patch.object(torch.optim.Adam, "step", lambda _: None):  # its state is counted separately
        return peak_bytes(run) / GIB


def of_model(preset: str) -> list[tuple[str, float, str]]:
    """Parameters and memory of a step."""
    config = configuration(f"experiments={preset}", "hydra.mode=RUN", "lambda=0.2")
    mechanism = build_mechanism(config["mechanism"])
    outline = outline_model(config["model"], mechanism, vocabulary(config))
    found = [("parameters", count_parameters(outline) / 1e6, "M")]
    network = model(config)
    peaks = [peak(network, config, *size) for size in SIZES]
    columns = np.array([(1, n, n * length) for n, length in SIZES], float)
    _, a, b = plane = np.linalg.lstsq(columns, np.array(peaks), rcond=None)[0]
    for (tokens, length), most in zip(SIZES, peaks, strict=True):
        found.append((f"{tokens:,} tokens of {length}: gradients and activations", most, "GiB"))
    off = float(np.abs(columns @ plane / peaks - 1).max())
    found.append(("furthest from the plane", 100 * off, "%"))
    tokens = config["data"]["batch_tokens"]
    for length in ASKED:
        carried = tokens * float(a + b * length)
        found.append((f"{tokens:,} tokens of {length}: activations, carried on", carried, "GiB"))
    return found


def of_checkpoints() -> list[tuple[str, float, str]]:
    """Bytes of a checkpoint, and the number of checkpoints, of a small run."""
    options = ["model=transformer_multi30k", "data.valid=8", "data.test=8", "data.train=1000"]
    options += ["trainer.max_updates=2", "trainer.validate_every=1", "trainer.progress=false"]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "train.py", *options, f"hydra.run.dir={run}"]
        command.append(f"cache={folder}/cache")
        subprocess.run(command, cwd=ROOT, env=environment(), check=True, capture_output=True)
        sizes = [path.stat().st_size for path in (run / CHECKPOINTS).iterdir()]
        parameters = json.loads((run / TRAINING).read_text(encoding="utf-8"))["parameters"]
    return [
        ("a checkpoint, for each parameter", max(sizes) / parameters, "bytes"),
        ("checkpoints that a run keeps", len(sizes), ""),
    ]


def of_hash() -> float:
    """GiB per second of the digest that checks the cache at each start."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(FILE))
        file.flush()
        start = time.process_time()
        digest_of_file(Path(file.name))
        return FILE / GIB / (time.process_time() - start)


def measure() -> list[Result]:
    one_thread()
    found = {name: of_model(preset) for name, preset in PRESETS.items()}
    found["disk"] = [*of_checkpoints(), ("SHA-256 on one core", of_hash(), "GiB/s")]
    return [
        summed_up(subject, what, [value], unit=unit)
        for subject, figures in found.items()
        for what, value, unit in figures
    ]


if __name__ == "__main__":
    show(measure())
