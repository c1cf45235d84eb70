"""Two processes of `trainer=ddp`, each on its own core, against one process on one core.

    python benchmarks/ddp.py [--rounds 2]

Runs `python train.py` on the built-in data with the Transformer's size for Multi30k and batches of
4,096 tokens for each process. Measures the target tokens per second of all processes, recorded in
`metrics.csv` every four updates. The first figure of a run includes the start-up and is left out. A
run with two processes is compared with the adjacent run with one.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from frame import ROOT, Result, environment, show, summed_up

TARGET = 1.85
TRAINERS = {
    1: ["trainer=cpu"],
    2: ["trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2"],
}
UPDATES, EVERY = 20, 4
OPTIONS = [
    f"trainer.max_updates={UPDATES}",
    f"trainer.validate_every={UPDATES}",
    f"trainer.log_every={EVERY}",
    "trainer.progress=false",
    "model=transformer_multi30k",
    "data.batch_tokens=4096",
    "data.valid=8",
    "data.test=8",
]
BIND = """
import os
os.sched_setaffinity(0, {int(os.environ["CORES"].split()[int(os.environ.get("LOCAL_RANK", 0))])})
"""
"""Python runs this at the start of each process, as `sitecustomize`."""


def tokens_per_second(devices: int, folder: Path, options: list[str]) -> list[float]:
    """Of one run."""
    (folder / "sitecustomize.py").write_text(BIND)
    env = environment()
    env["PYTHONPATH"] += os.pathsep + str(folder)
    env["CORES"] = " ".join(map(str, sorted(os.sched_getaffinity(0))))
    run = folder / f"run-{devices}"
    own = [*TRAINERS[devices], f"hydra.run.dir={run}", f"cache={folder}/cache"]
    command = [sys.executable, "train.py", *options, *own]
    subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL)
    with (run / "metrics.csv").open(newline="") as file:
        found = [row["train/tokens_per_s"] for row in csv.DictReader(file)]
    return [float(rate) for rate in found if rate][1:]


def measure(rounds: int) -> list[Result]:
    """Measure pairs of runs with one process and with two; no results on a single core."""
    what = "two CPU processes: times the tokens/s of one"
    if len(os.sched_getaffinity(0)) < 2:
        return [summed_up("DDP", f"{what} (one core only)", [float("nan")], least=TARGET)]
    times = list[float]()
    for number in range(rounds):
        rates = dict[int, list[float]]()
        for devices in (1, 2) if number % 2 == 0 else (2, 1):  # the order matters
            with tempfile.TemporaryDirectory() as folder:
                rates[devices] = tokens_per_second(devices, Path(folder), OPTIONS)
        times += [rate / statistics.median(rates[1]) for rate in rates[2]]
    return [summed_up("DDP", what, times, least=TARGET)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2, help="runs of each (default: %(default)s)")
    show(measure(parser.parse_args().rounds))
