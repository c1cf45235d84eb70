"""Compares two versions of the code bit by bit: trains and decodes everything with both.

    python benchmarks/record.py make FOLDER [--tree CHECKOUT] [--jobs 2] [--only NAME ...]
    python benchmarks/record.py compare FOLDER FOLDER

`make` trains every mechanism of `conf/mechanism` on every compatible model, and the variants in
`EXTRA`, for 200 updates of small models on one thread, and decodes the test set. For each run it
keeps the losses and validation figures as hexadecimal floats, a digest of each tensor of the
checkpoint, the scores, and `instances.log`. `--tree` trains with the code of another checkout, such
as one made by `git worktree add ../before 662b2bc` (the last commit before the parts of a mechanism
became objects). `compare` lists each run that differs, and its differences. Numbers are the same
only on the same machine, because processors round differently.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MODELS = {
    "transformer": ["model.dim=32", "model.ffn=48"],
    "rnmt_plus": ["model.dim=32"],
    "luong": ["model.dim=32"],
}
EXTRA = {
    "average_embedding": ["mechanism=wait_k", "model=incremental_transformer", "model.dim=32"],
    "average_embedding_learned": ["mechanism=mma_il", "model=incremental_transformer",
                                  "model.dim=32", "lambda=0.1"],
    "joint_teacher": ["mechanism=wait_k", "model=incremental_transformer", "model.dim=32",
                      "teacher=joint"],
    "reencoding": ["mechanism=wait_k", "model.encoder=reencoding", "model.dim=32"],
    "bidirectional": ["mechanism=soft", "model.encoder=bidirectional", "model.dim=32"],
    "beam": ["mechanism=soft", "model.dim=32", "decoding.beam=4"],
    "leaky": ["mechanism=milk", "model=rnmt_plus", "model.dim=32",
              "mechanism.mass_preservation=false", "lambda=0.1"],
    "post_norm": ["mechanism=mma_h", "model.dim=32", "model.norm=post", "lambda=0.1"],
    "average_checkpoint": ["mechanism=wait_k", "model.dim=32", "trainer.average=2"],
    "two_ranks": ["mechanism=mma_il", "model.dim=32", "trainer=ddp", "trainer.devices=2",
                  "lambda=0.1"],
    "accumulated": ["mechanism=mma_il", "model.dim=32", "trainer.accumulate=2", "lambda=0.1"],
    "ap": ["mechanism=milk", "model.dim=32", "objective.latency=ap", "lambda=0.1"],
}  # fmt: skip
SMALL = [
    "data.train=3000", "data.valid=60", "data.test=100", "data.batch_tokens=600",
    "trainer.max_updates=200", "trainer.validate_every=100", "trainer.log_every=5",
    "trainer.progress=false", "objective.hold=40", "objective.warmup=40", "optim.warmup=50",
]  # fmt: skip
MEASURED = ("train/tokens_per_s",)
"""Figures that depend on the speed of the machine."""


def every_run(tree: Path) -> dict[str, list[str]]:
    """The overrides of each run, by its name."""
    runs = {}
    for path in sorted((tree / "conf" / "mechanism").glob("*.yaml")):
        learned = "schedule: monotonic" in path.read_text()
        weights = ["lambda=0.1"] if learned else []
        if learned and path.stem.startswith("mma"):
            weights.append("lambda_var=0.05")
        for model, sizes in MODELS.items():
            if path.stem == "hmt" and model != "transformer":
                continue
            runs[f"{model}-{path.stem}"] = [
                f"mechanism={path.stem}", f"model={model}", *sizes, *weights,
            ]  # fmt: skip
    return runs | EXTRA


def train(losses: Path, overrides: Sequence[str]) -> None:
    """Run `train.py` of this folder, and record everything that is logged, in full precision."""
    import pytorch_lightning as pl  # noqa: PLC0415  (seconds to import)

    log = pl.LightningModule.log

    def spy(
        module: pl.LightningModule, name: str, value: float, *more: object, **others: object
    ) -> None:
        if module.trainer.is_global_zero and name not in MEASURED:
            with losses.open("a") as file:
                file.write(f"{module.global_step} {name} {float(value).hex()}\n")
        log(module, name, value, *more, **others)  # type: ignore[arg-type]

    pl.LightningModule.log = spy  # type: ignore[method-assign, assignment]
    sys.argv = ["train.py", *overrides]
    runpy.run_path("train.py", run_name="__main__")


def make(folder: Path, tree: Path, jobs: int, only: Sequence[str]) -> None:
    """Train all runs into a folder, each in a separate process."""
    every = every_run(tree)
    if unknown := {*only} - {*every}:
        sys.exit(f"there is no run {', '.join(sorted(unknown))}; choose from {', '.join(every)}")
    runs = {name: o for name, o in every.items() if not only or name in only}
    with ThreadPoolExecutor(jobs) as pool:
        failed = [*filter(None, pool.map(lambda run: _one(folder, tree, *run), runs.items()))]
    print(f"{len(runs)} runs, {len(failed)} failed {', '.join(failed)}")
    sys.exit(bool(failed))


def _one(folder: Path, tree: Path, name: str, overrides: list[str]) -> str | None:
    """Train a run and keep its results; its name if it failed."""
    run, kept = folder / "runs" / name, folder / name
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "losses.txt").unlink(missing_ok=True)
    command = [sys.executable, str(Path(__file__).resolve()), "train", str(kept / "losses.txt"),
               *overrides, *SMALL, f"hydra.run.dir={run}", f"cache={folder / 'cache'}"]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    with (kept / "output.txt").open("w") as output:
        status = subprocess.run(
            command, cwd=tree, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False
        ).returncode
    if status:
        print(f"{name}: exit status {status}, see {kept / 'output.txt'}")
        return name
    (kept / "weights.txt").write_text("".join(f"{digest}\n" for digest in _digests(run)))
    scores = json.loads((run / "test_scores.json").read_text())
    figures = sorted({*_figures(scores)})
    (kept / "scores.txt").write_text("".join(f"{figure}\n" for figure in figures))
    (kept / "instances.log").write_bytes((run / "instances.log").read_bytes())
    print(name, flush=True)
    return None


def _digests(run: Path) -> list[str]:
    """A digest of each tensor of the newest checkpoint, without its name."""
    import torch  # noqa: PLC0415  (seconds to import)

    checkpoint = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    tensors = checkpoint["state_dict"].values()
    return sorted(hashlib.sha256(t.contiguous().numpy().tobytes()).hexdigest() for t in tensors)


def _figures(scores: object) -> list[str]:
    """All numbers in the scores, in full precision, without their keys."""
    if isinstance(scores, dict):
        return [figure for value in scores.values() for figure in _figures(value)]
    return [float(scores).hex()] if isinstance(scores, int | float) else []


def compare(one: Path, other: Path) -> None:
    """Print the differences; exits with 1 if there are any."""
    names = sorted({p.parent.name for f in (one, other) for p in f.glob("*/weights.txt")})
    if not names:
        sys.exit(f"no runs in {one} and {other}")
    different = 0
    for name in names:
        files = ("losses.txt", "weights.txt", "scores.txt", "instances.log")
        unlike = [file for file in files if _read(one / name / file) != _read(other / name / file)]
        different += bool(unlike)
        if unlike:
            print(f"{name}: {', '.join(unlike)}")
    print(f"{len(names)} runs, {different} differ")
    sys.exit(bool(different))


def _read(path: Path) -> list[bytes] | None:
    """The lines in a fixed order, because the figures of one update are logged in any order."""
    return sorted(path.read_bytes().splitlines()) if path.is_file() else None


def main() -> None:
    """Read the command line."""
    if sys.argv[1:2] == ["train"]:
        train(Path(sys.argv[2]), sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    maker = verbs.add_parser("make")
    maker.add_argument("folder", type=Path)
    maker.add_argument("--tree", type=Path, default=Path(__file__).resolve().parents[1])
    maker.add_argument("--jobs", type=int, default=1)
    maker.add_argument("--only", nargs="*", default=[])
    comparer = verbs.add_parser("compare")
    comparer.add_argument("one", type=Path)
    comparer.add_argument("other", type=Path)
    chosen = parser.parse_args()
    if chosen.verb == "make":
        make(chosen.folder.resolve(), chosen.tree.resolve(), chosen.jobs, chosen.only)
    else:
        compare(chosen.one, chosen.other)


if __name__ == "__main__":
    main()
