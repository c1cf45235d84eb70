"""Resuming: which checkpoint, whether it fits, and room for a run that starts afresh."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simulmt.console import say
from simulmt.data.manifest import check_manifest
from simulmt.errors import UserError
from simulmt.processes import is_first_process
from simulmt.saved.checkpoint import read_checkpoint

_FOLDERS = ("checkpoints", "samples", "evaluation", "tensorboard", "wandb")
_RESULTS = ("test_scores.json", "instances.log", "path.png")
_FILES = (
    "manifest.json",
    "config.json",
    "training.json",
    "metrics.csv",
    "wandb_id",
    "outcome.json",
)


def find_resume(choice: str | None, folder: Path) -> Path | None:
    """The checkpoint to resume from; `last` stands for this run's newest, if there is one."""
    if not choice:
        return None
    path = folder / "checkpoints" / "last.ckpt" if choice == "last" else Path(choice)
    if choice == "last" and not path.exists():
        say(f"nothing to resume in {folder}: starting")
        return None
    if not path.is_file():
        raise UserError(f"ckpt_path={choice}: there is no such file; give a .ckpt file or `last`")
    return path


def check_resume(
    path: Path, config: Mapping[str, Any], described: Mapping[str, object], folder: Path
) -> int:
    """Refuse to resume with other data, model, mechanism, teacher or optimiser, or with no update.

    The run's own checkpoint may be its last one: then it is only tested again.

    Returns:
        The update at which the run goes on.
    """
    checkpoint = read_checkpoint(path)
    before = checkpoint["simulmt"]
    check_manifest(before["manifest"], described, ["train", "valid"])
    for group in ("model", "mechanism", "teacher", "optim"):
        was, now = before["config"].get(group, {}), config.get(group, {})
        changed = [
            f"{group}.{key}={now.get(key)} (was {was.get(key)})"
            for key in sorted({*was, *now})
            if was.get(key) != now.get(key)
        ]
        if changed:
            raise UserError(
                f"cannot resume with {', '.join(changed)}; give the options of the checkpoint, or "
                "start from its weights with init_from"
            )
    if "global_step" not in checkpoint:
        raise UserError(
            f"ckpt_path={path} holds weights alone, no update to go on from; give last.ckpt, or "
            "start from its weights with init_from"
        )
    step, most = int(checkpoint["global_step"]), config["trainer"]["max_updates"]
    if step >= most and not _is_own(path, folder):
        raise UserError(
            f"ckpt_path={path} has been trained for {step:,} updates, trainer.max_updates is "
            f"{most:,}: raise it, or evaluate the checkpoint as it is (evaluate.py)"
        )
    return step


def _is_own(path: Path, folder: Path) -> bool:
    return folder.resolve() in path.resolve().parents


def make_room(folder: Path, resume: Path | None, step: int | None) -> None:
    """Replace the earlier run of the same command, unless it is the one that resumes at `step`.

    What resumes has no results until it has them again: a run that has scores is finished. Nor has
    it an average, or checkpoints of later updates.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not is_first_process():
        return
    checkpoints = folder / "checkpoints"
    if resume is None or not _is_own(resume, folder):
        if checkpoints.exists():
            say(f"replacing the run in {folder}; ckpt_path=last would have resumed it")
        clear(folder)
        return
    _remove(folder, _RESULTS)
    (checkpoints / "average.ckpt").unlink(missing_ok=True)
    for path in checkpoints.glob("step-*.ckpt"):
        if int(path.stem.removeprefix("step-")) > (step or 0):
            path.unlink()


def clear(folder: Path) -> None:
    """Remove what an earlier run of the same command left."""
    _remove(folder, _RESULTS)  # first: what is left, if this breaks off, must not look finished
    for name in _FOLDERS:
        shutil.rmtree(folder / name, ignore_errors=True)
    _remove(folder, _FILES)


def _remove(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)
