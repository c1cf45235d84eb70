"""The run directory: the names of its files, and the records in them.

A run keeps everything in one folder. Every file of that folder is named here and nowhere else.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from simulmt.errors import UserError
from simulmt.system.console import warn
from simulmt.system.disk import UNFINISHED, read_json, read_record

MARK = ".simulmt"  # an empty file in each run directory
CONFIG = "config.json"  # what is trained, resolved
DOCUMENT_SCORES = "document_scores.json"  # of documents, in an evaluation
WEIGHTS = "model.safetensors"  # of an exported model
MANIFEST = "manifest.json"  # the data it is trained on
TRAITS = "traits.json"  # what kind of policy it is
METRICS = "metrics.csv"
PROVENANCE = "provenance.json"  # the command, the commit, the versions and the machine
TRAINING = "training.json"  # size, length and speed of the training
SCORES = "test_scores.json"  # the last file of a run: a run that has it is finished
INSTANCES = "instances.log"
PICTURE = "path.png"
WANDB_ID = "wandb_id"
SET_ASIDE = re.compile(r"@\d+$")  # ends the name of an earlier run's directory
HYDRA = ".hydra"  # configuration and overrides, as in any program with Hydra
CHECKPOINTS = "checkpoints"
BEST, LAST, AVERAGE = (f"{CHECKPOINTS}/{name}.ckpt" for name in ("best", "last", "average"))
STEP = "step-{step:07d}"  # a checkpoint, or a file of samples
SAMPLES = "samples"
TENSORBOARD = "tensorboard"
EVALUATION = "evaluation"  # a folder for each evaluation, with instances, picture and:
EVALUATED = "scores.json"
SEGMENTS = "segments"  # beside a log: the scores of each sentence by other programs, by metric
LISTS = "policy.json"  # with export=policy, SiLLM's lists

LEFT_BY_KILLS = tuple(f"{place}*{UNFINISHED}" for place in ("", f"{CHECKPOINTS}/", f"{SAMPLES}/"))
RESULTS = (SCORES, INSTANCES, PICTURE)
FILES = (MANIFEST, CONFIG, TRAITS, PROVENANCE, TRAINING, METRICS, WANDB_ID)
OF_LOGGERS = (TENSORBOARD, "wandb")
FOLDERS = (CHECKPOINTS, SAMPLES, EVALUATION, SEGMENTS, HYDRA, *OF_LOGGERS)


@dataclass(frozen=True)
class Traits:
    """What kind of policy a run trains.

    Attributes:
        learned: True if reading and writing are learned, so lambda trades quality for latency.
        offline: True if the model reads the whole sentence first.
        dials: The options that trade quality for latency in decoding, as trained: `{"k": 3}`.
    """

    learned: bool
    offline: bool
    dials: Mapping[str, int | float]


@dataclass(frozen=True)
class Provenance:
    """Where a training run comes from, as of its last start.

    Attributes:
        command: What the user typed.
        started: In UTC.
        commit: Of the clone that simulmt runs from, with `-dirty` if files have changed; None for
            an installed package.
        versions: Of Python and the packages that the numbers depend on.
        host: The name of the machine.
        device: The processor, or the GPU.
        job: The number of the job, on a cluster with SLURM.
        init_sha256: SHA-256 of the weights' file of `init_from`, in hex; None without `init_from`.
        teacher_sha256: The same of `teacher.checkpoint` or `teacher.file`.
    """

    command: str
    started: str
    commit: str | None
    versions: Mapping[str, str]
    host: str
    device: str
    job: str | None = None
    init_sha256: str | None = None
    teacher_sha256: str | None = None


@dataclass(frozen=True)
class Training:
    """The size, length and speed of a training run.

    Attributes:
        parameters: Numbers in the model; a shared one counts once.
        updates: All updates, also those before the run was resumed.
        resumed_at: The update of the last start, 0 unless the run was resumed.
        seconds: Since update `seconds_since`, validations included.
        tokens_per_second: Median over the logged updates, in target subwords of all processes;
            None if the run was too short to log any.
        threads: Per process; this and the next two are as of the last start.
        processes: Number of processes of the run.
        device: `cpu`, or the name of the GPU.
        seconds_since: 0 if `seconds` covers all parts of a resumed run; None if unknown.
    """

    parameters: int
    updates: int
    resumed_at: int
    seconds: float
    tokens_per_second: float | None
    threads: int
    processes: int
    device: str
    seconds_since: int | None = None


def read_provenance(folder: Path) -> Provenance | None:
    """Return where a run or an exported model comes from; None if unknown.

    Raises:
        UserError: the file is corrupt.
    """
    file = folder / PROVENANCE
    return read_record(file, Provenance) if file.exists() else None


def absent(folder: Path) -> list[Path]:
    """Return the absent ones among a folder and those above it, the innermost first."""
    return [place for place in (folder, *folder.parents) if not place.exists()]


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove the empty ones among some folders, in their order."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def folders_in(folder: Path) -> Iterator[Path]:
    """Yield a folder and all below it, also those that links lead to, each once.

    Runs that have made room for another are left out.
    """
    seen = set[str]()
    for place, below, _ in os.walk(folder, onerror=_left_out, followlinks=True):
        new = (real := os.path.realpath(place)) not in seen
        below[:] = sorted(name for name in below if new and not SET_ASIDE.search(name))
        seen.add(real)
        if new:
            yield Path(place)


def _left_out(error: OSError) -> None:
    """Warn of a folder that cannot be read; one that does not exist is its caller's matter."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        warn(f"{error.filename} is left out: {error.strerror}")


def has_begun(folder: Path) -> bool:
    """Return True if a training run has begun in a folder; a rejected command begins none."""
    return (folder / CONFIG).is_file() and (folder / MANIFEST).is_file()


def check_own(folder: Path) -> None:
    """Check that a directory that is not a run holds no file with the name of a run's file.

    Raises:
        UserError: a run would replace such a file.
    """
    foreign = made_by_run(folder)
    if foreign and not (folder / MARK).is_file():
        raise UserError(
            f"{folder.resolve()} is not a run directory, but holds {', '.join(foreign)}, which a "
            "run would replace; choose another hydra.run.dir, or move these files away"
        )


def made_by_run(folder: Path) -> list[str]:
    """Return the names in a folder that a run gives to its files and folders, except `.hydra`."""
    ours = (*FOLDERS, *FILES, *RESULTS)
    return [name for name in ours if name != HYDRA and os.path.lexists(folder / name)]


def is_exported(folder: Path) -> bool:
    """Return True if `simulmt export` or `simulmt import` wrote a folder."""
    return (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file()


def is_finished(folder: Path) -> bool:
    """Return True if a run has its scores and its decoded test set."""
    with suppress(UserError):
        read_json(folder / SCORES)
        return (folder / INSTANCES).is_file()
    return False


def tested_checkpoint(folder: Path) -> Path | None:
    """Return the checkpoint that a run tests: the average if there is one, else the best."""
    places = (folder / name for name in (AVERAGE, BEST))
    return next((place for place in places if place.is_file()), None)


def step_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of single updates, in the order of training."""
    return sorted((folder / CHECKPOINTS).glob(f"{STEP.partition('{')[0]}*.ckpt"))


def run_of(checkpoint: Path) -> Path | None:
    """Return the directory of the run that a checkpoint file belongs to; None if there is none."""
    return checkpoint.parents[1] if checkpoint.parent.name == CHECKPOINTS else None
