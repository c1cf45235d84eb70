"""The time until the first update and until the help, and the packages that an import loads.

    python benchmarks/start.py [--repeats 7]

Seconds are wall time from the start of the process. A first start, which fills the caches of the
disk, of compiled kernels and of subwords, is left out.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
import time

from frame import ROOT, Result, alone, environment, in_turns, summed_up

FIRST_UPDATE, HELP = 10.0, 2.0  # seconds
HEAVY = ("pytorch_lightning", "lightning", "wandb")
LIGHT = (
    "simulmt",
    "simulmt.models.transformer",
    "simulmt.models.rnmt_plus",
    "simulmt.live.translator",
)

UNTIL_FIRST_UPDATE = """
import os, runpy, sys
from torch.optim.optimizer import register_optimizer_step_post_hook
register_optimizer_step_post_hook(lambda *_: os._exit(0))
sys.argv = sys.argv[1:]
runpy.run_path("train.py", run_name="__main__")
sys.exit("train.py ended before its first update")
"""


def python(*arguments: str) -> str:
    """Run a program in the root of the working tree; its standard output."""
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), check=True, text=True, stdout=subprocess.PIPE
    )
    return done.stdout


def waiting(repeats: int) -> list[Result]:
    with tempfile.TemporaryDirectory() as folder:
        options = [f"hydra.run.dir={folder}/run", f"cache={folder}/cache", "trainer.progress=false"]
        first = functools.partial(python, "-c", UNTIL_FIRST_UPDATE, "train.py", *options)
        runs = {"update": first, "help": functools.partial(python, "train.py", "--help")}
        times = in_turns(runs, repeats, time.perf_counter, warm_up=1)
    return [
        summed_up(
            "start", "train.py to its first update", times["update"], unit="s", most=FIRST_UPDATE
        ),
        summed_up("start", "train.py --help", times["help"], unit="s", most=HELP),
    ]


def brought_along(module: str) -> Result:
    """The number of heavy packages that an import loads."""
    code = f"import sys, {module}; print(sum(name in sys.modules for name in {HEAVY}))"
    found = [float(python("-c", code))]
    return summed_up("start", f"import {module}: Lightning, W&B", found, unit="loaded", most=0)


def measure(repeats: int) -> list[Result]:
    return [*waiting(repeats), *map(brought_along, LIGHT)]


if __name__ == "__main__":
    alone(measure, __doc__)
