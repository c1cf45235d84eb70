"""The directory of a run: its state, its lock, what it resumes from, and room for a new run."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

from simulmt.data.manifest import Manifest, check_manifest
from simulmt.data.store import digest_of_file
from simulmt.errors import UserError
from simulmt.files import run_directory as files
from simulmt.options import SAME_RUN, Config, convert, flat_options, is_below
from simulmt.parts import needed_by
from simulmt.saved.checkpoint import read_checkpoint, weights_file
from simulmt.system.console import say
from simulmt.system.disk import read_json, writing
from simulmt.system.lock import alone, lock_of
from simulmt.training.datamodule import check_order
from simulmt.training.plan import TrainingPlan

LOCKED = "SIMULMT_LOCKED"
"""Environment variable with the run directory that a sweep has locked for a run."""
_THE_SAME = ("model", "mechanism", "teacher", "optim", "trainer.accumulate")
"""The options and groups that a resumed run must not change."""
_CHOOSE = ("objective", "trainer.dal_range")
"""The options on which the choice of a folder's best checkpoint depends."""


@dataclass(frozen=True)
class RunState:
    """The state of a run directory, and the reason."""

    kind: Literal["new", "half", "finished"]
    reason: str = ""


def read_state(folder: Path, config: Config) -> RunState:
    """Return the state of the run in a directory; a run with other settings counts as new.

    Args:
        folder: the run directory, which may be absent.
        config: the configuration that is to be trained.
    """
    if not (folder / files.CONFIG).is_file():
        return RunState("new")
    try:
        provenance = files.read_provenance(folder)
        then = provenance.versions if provenance else {}
        changed = differences(read_json(folder / files.CONFIG), config)
        changed += [  # plugins whose code has been edited
            f"{module} was {then.get(module)}, is {now}"
            for module, now in needed_by(config).items()
            if then.get(module) != now
        ]
        changed += _changed_models(folder, config)
        if changed:
            return RunState("new", f"settings changed: {', '.join(changed)}")
        if files.is_finished(folder):
            return RunState("finished")
        if not (folder / files.LAST).is_file():
            return RunState("new")
        step = read_checkpoint(folder / files.LAST).get("global_step")
        return RunState("half", f"from update {step}")
    except UserError as error:
        return RunState("new", str(error))


def used_models(config: Config) -> dict[str, str | None]:
    """Return the SHA-256 of the model that a training starts from and of its teacher, by option.

    The digest is None without a model, or if its file is absent.
    """
    teacher = config.get("teacher") or {}
    kind = "file" if teacher.get("file") else "checkpoint"
    places = {"init_from": config.get("init_from"), f"teacher.{kind}": teacher.get(kind)}
    used = {f"{name}={x}": weights_file(Path(x)) if x else None for name, x in places.items()}
    return {option: digest_of_file(file) if file else None for option, file in used.items()}


def _changed_models(folder: Path, config: Config) -> list[str]:
    """Return which of the used models have changed since the run in a directory began."""
    begun = files.read_provenance(folder)
    then = (begun.init_sha256, begun.teacher_sha256) if begun else (None, None)
    found = zip(used_models(config).items(), then, strict=True)
    return [f"the file of {option}" for (option, now), old in found if now and old and now != old]


def differences(before: Config, after: Config, among: Sequence[str] = ()) -> list[str]:
    """Return the changed settings, of those that affect training, or of some groups."""
    old, new = flat_options(before), flat_options(after)
    return [
        f"{key} was {old.get(key)}, is {new.get(key)}"
        for key in {**old, **new}
        if old.get(key) != new.get(key)
        and (is_below(key, among) if among else not is_below(key, SAME_RUN))
    ]


def is_requeued(folder: Path) -> bool:
    """Return True if SLURM has started this job again, and a run of the same job can resume."""
    if os.environ.get("SLURM_RESTART_COUNT", "0") == "0" or not (folder / files.LAST).is_file():
        return False
    provenance = files.read_provenance(folder)
    return provenance is not None and provenance.job == os.environ.get("SLURM_JOB_ID")


def remedy(folder: Path, interval: int) -> str:
    """Return how to continue an interrupted run that validates every `interval` updates."""
    if (folder / files.LAST).is_file():
        return "the same command with ckpt_path=last resumes from the last validation"
    return f"nothing is saved yet: the first validation is at update {interval:,}"


def find_resume(choice: str | None, folder: Path) -> Path | None:
    """Return the checkpoint to resume from, if any; `last` names the newest of this run.

    Raises:
        UserError: the checkpoint is absent, or its run would write through a symbolic link.
    """
    if not choice:
        return None
    path = folder / files.LAST if choice == "last" else Path(choice).expanduser()
    if choice == "last" and not path.exists():
        say(f"nothing to resume in {folder}: starting a new run")
        return None
    if not path.is_file():
        raise UserError(f"ckpt_path={choice} is not a file; give a .ckpt file, or `last`")
    names = (*files.made_by_run(folder), files.LAST)
    if links := [name for name in names if (folder / name).is_symlink()]:
        raise UserError(
            f"{folder / links[0]} is a symbolic link, so resuming could change files outside the "
            "run: put what it points to in its place"
        )
    return path


def check_resume(
    path: Path,
    config: Config,
    described: Manifest,
    folder: Path,
    plan: TrainingPlan,
    order: Mapping[str, int],
) -> int:
    """Reject a resume with other data or batches, or with other options of `_THE_SAME`.

    A checkpoint without updates left is rejected, too, unless it is the run's own, of its last
    update: then the run is only tested again.

    Args:
        path: the checkpoint.
        config: the configuration of the run.
        described: the manifest of the run's data.
        folder: the run directory.
        plan: the run's updates.
        order: the settings of its training batches.

    Returns:
        The update at which the run resumes.

    Raises:
        UserError: the checkpoint cannot be resumed from.
    """
    checkpoint = read_checkpoint(path)
    before = checkpoint["simulmt"]
    check_manifest(convert(before["manifest"], Manifest), described, ["train", "valid"])
    if changed := differences(before["config"], config, _THE_SAME):
        raise UserError(
            f"ckpt_path={path} was trained with other settings ({', '.join(changed)}); give the "
            "options of the checkpoint, or start from its weights with init_from"
        )
    if is_own(path, folder) and (changed := differences(before["config"], config, _CHOOSE)):
        raise UserError(
            f"{folder} chose its best checkpoint by other settings ({', '.join(changed)}): "
            f"continue in a new folder with ckpt_path={path} name=NEW"
        )
    if is_own(path, folder) and (changed := _changed_models(folder, config)):
        raise UserError(
            f"{' and '.join(changed)} changed after {folder} began: restore it, or retrain "
            "without ckpt_path"
        )
    if not checkpoint.get("optimizer_states"):
        raise UserError(
            f"ckpt_path={path} holds only weights, so training cannot resume from it; give "
            "last.ckpt, or start from its weights with init_from"
        )
    check_order(checkpoint["loops"]["fit_loop"]["state_dict"]["combined_loader"][0], order)
    step = int(checkpoint["global_step"])
    if step > plan.max_updates or (step == plan.max_updates and not is_own(path, folder)):
        raise UserError(
            f"ckpt_path={path} was trained for {step:,} updates, but trainer.max_updates is "
            f"{plan.max_updates:,}: increase trainer.max_updates, or score the checkpoint with "
            "`simulmt evaluate`"
        )
    every = plan.validate_every  # Lightning counts an update less if this validation is not due
    if step % every and not step % before["config"]["trainer"]["validate_every"]:
        raise UserError(
            f"ckpt_path={path} resumes at update {step:,}, which is no multiple of "
            f"trainer.validate_every={every:,}: set it to a divisor"
        )
    return step


def is_own(path: Path, folder: Path) -> bool:
    """Return True if a checkpoint lies in a run directory."""
    return folder.resolve() in path.resolve().parents


@contextmanager
def alone_in(folder: Path, *, waits: bool = False) -> Iterator[None]:
    """Lock a run directory, unless a sweep has; leave nothing behind if no run has begun there.

    Args:
        folder: the run directory.
        waits: wait for a process that has locked it.

    Raises:
        BusyError: another process trains there; the message names it.
    """
    folder = folder.absolute()
    if os.environ.get(LOCKED) == str(folder):
        yield
        return
    made = files.absent(folder.parent)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with alone(folder, waits=waits):
            try:
                yield
            finally:
                if not (folder / files.MARK).is_file():
                    lock_of(folder).unlink(missing_ok=True)
    finally:
        files.remove_empty(made)


def make_room(folder: Path, resume: Path | None, step: int | None) -> None:
    """Make a folder for a run; an earlier run in its place gets the name NAME@1, NAME@2, ...

    A run that resumes its own training keeps its folder. It loses its test scores, because a run
    that has them is finished, and all checkpoints of later updates.

    Args:
        folder: the run directory.
        resume: the checkpoint that is resumed, if any.
        step: the update of that checkpoint.
    """
    if resume is not None and is_own(resume, folder):
        for pattern in (*files.RESULTS, files.AVERAGE, *files.LEFT_BY_KILLS):
            for path in folder.glob(pattern):
                path.unlink()
        for path in files.step_checkpoints(folder):
            if int(path.stem.rpartition("-")[2]) > (step or 0):
                path.unlink()
        last = folder / files.LAST
        for path in () if resume == last else filter(Path.is_file, (folder / files.BEST, last)):
            if int(read_checkpoint(path)["global_step"]) > (step or 0):
                path.unlink()
    elif files.made_by_run(folder):
        others = (place for place in files.folders_in(folder) if files.has_begun(place))
        if other := next((place for place in others if place != folder), None):
            raise UserError(
                f"{folder} also holds another run, {other}, which would move with it: give "
                "this run another name=NAME"
            )
        places = (folder.with_name(f"{folder.name}@{number}") for number in count(1))
        place = next(place for place in places if not place.exists())
        for handler in logging.getLogger().handlers:
            handler.close()  # the log continues in the new folder
        with writing(folder):
            folder.rename(place)
        saved = "" if (place / files.LAST).is_file() else "; it has saved no checkpoint"
        say(f"the earlier run in {folder} is now {place.name}{saved}")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / files.MARK).touch()
