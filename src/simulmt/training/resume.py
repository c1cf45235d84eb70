"""Resuming: the checkpoint, the checks that it fits, and the run directory before the start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from simulmt.console import say
from simulmt.data.manifest import check_manifest
from simulmt.errors import UserError
from simulmt.options import Config
from simulmt.processes import is_first_process
from simulmt.run_directory import CHECKPOINTS, LAST, clear, clear_after
from simulmt.saved.checkpoint import read_checkpoint
from simulmt.training.state import differences

_THE_SAME = ("model", "mechanism", "teacher", "optim")
"""The groups of options that a resumed run must not change."""


def find_resume(choice: str | None, folder: Path) -> Path | None:
    """Return the checkpoint to resume from, if any; `last` names the newest of this run."""
    if not choice:
        return None
    path = folder / LAST if choice == "last" else Path(choice)
    if choice == "last" and not path.exists():
        say(f"nothing to resume in {folder}: starting a new run")
        return None
    if not path.is_file():
        raise UserError(f"ckpt_path={choice}: there is no such file; give a .ckpt file or `last`")
    return path


def check_resume(path: Path, config: Config, described: Mapping[str, object], folder: Path) -> int:
    """Refuse to resume with other data, model, mechanism, teacher or optimiser.

    A checkpoint without updates left is refused, too, unless it is the run's own: then the run is
    only tested again.

    Args:
        path: the checkpoint.
        config: the configuration of the run.
        described: the manifest of the run's data.
        folder: the run directory.

    Returns:
        The update at which the run resumes.

    Raises:
        UserError: the checkpoint cannot be resumed from.
    """
    checkpoint = read_checkpoint(path)
    before = checkpoint["simulmt"]
    check_manifest(before["manifest"], described, ["train", "valid"])
    old, new = ({group: c[group] for group in _THE_SAME} for c in (before["config"], config))
    if changed := differences(old, new):
        raise UserError(
            f"cannot resume with other settings ({', '.join(changed)}); give the options of the "
            "checkpoint, or start from its weights with init_from"
        )
    if "global_step" not in checkpoint:
        raise UserError(
            f"ckpt_path={path} holds weights alone, no update to resume at; give last.ckpt, or "
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
    """Clear the run directory; a run that resumes its own training keeps what it needs.

    Such a run loses its test scores, because a run that has them is finished.

    Args:
        folder: the run directory; made where absent.
        resume: the checkpoint that is resumed, if any.
        step: the update of that checkpoint.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not is_first_process():
        return
    if resume is not None and _is_own(resume, folder):
        clear_after(folder, step or 0)
        return
    if (folder / CHECKPOINTS).exists():
        say(f"replacing the run in {folder}; ckpt_path=last would have resumed it")
    clear(folder)
