"""Measures if the processes sum their gradients while the backward pass is still running.

    python benchmarks/overlap.py

Runs `python train.py trainer=ddp` with two CPU processes. torch's profiler records one update of
the first process: when the all-reduce of the first bucket begins, and when the last gradient is
complete. On GPUs, the processes exchange buckets in the same way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from frame import ROOT, Result, environment, show, summed_up

UPDATES, WATCHED = 4, 3  # the number of updates before the recorded one
OPTIONS = [
    "trainer=ddp",
    "trainer.accelerator=cpu",
    "trainer.devices=2",
    f"trainer.max_updates={UPDATES}",
    f"trainer.validate_every={UPDATES}",
    "trainer.progress=false",
    "model=transformer_multi30k",
    "data.valid=8",
    "data.test=8",
]
WATCH = f"""
import json, os
if os.environ.get("LOCAL_RANK", "0") == "0":
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook
    updates, profile = [], torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])

    def after(*_):
        updates.append(None)
        if len(updates) == {WATCHED}:
            profile.start()
        elif len(updates) == {WATCHED} + 1:
            profile.stop()
            found = [(e.name, e.time_range.start, e.time_range.end) for e in profile.events()]
            with open(os.environ["EVENTS"], "w") as file:
                json.dump(found, file)

    register_optimizer_step_post_hook(after)
"""
"""Python runs this at the start of each process, as `sitecustomize`."""


def begun(events: list[tuple[str, float, float]]) -> float:
    """The start of the first all-reduce, as a share of the time from first to last gradient."""
    gradients = [(start, end) for name, start, end in events if name.endswith("::AccumulateGrad")]
    first, last = min(start for start, _ in gradients), max(end for _, end in gradients)
    reduced = min(start for name, start, _ in events if name.endswith(":all_reduce"))
    return (reduced - first) / (last - first)


def measure() -> list[Result]:
    """Measure one run; its times are only compared with one another."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sitecustomize.py").write_text(WATCH)
        events = Path(folder) / "events.json"
        env = environment() | {"EVENTS": str(events)}
        env["PYTHONPATH"] += os.pathsep + folder
        command = [sys.executable, "train.py", *OPTIONS, f"hydra.run.dir={folder}/run"]
        subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True)
        share = begun(json.loads(events.read_text()))
    what = "gradients' all-reduce begins, as a share of the backward pass"
    return [summed_up("DDP", what, [share], unit="", most=1.0)]


if __name__ == "__main__":
    show(measure())
