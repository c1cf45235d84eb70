"""The teacher of a run, from `conf/teacher`: checked before data are read, built afterwards."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from simulmt.attention import FullSentence, Lookback, Mechanism
from simulmt.data.manifest import Manifest, check_manifest
from simulmt.errors import UserError
from simulmt.models.model import Model
from simulmt.models.reencoding import REENCODING
from simulmt.models.vocabulary import Vocabulary
from simulmt.objective.teacher import Joint, Pretrained, Teacher
from simulmt.options import Weight, construct, pick
from simulmt.parts.builders import build_model, outline_model
from simulmt.parts.configuration import Configuration
from simulmt.saved import checkpoint as checkpoints
from simulmt.saved.trained import Trained

FULL = Mechanism(schedule=FullSentence(), span=Lookback(), name="full")
"""The mechanism of a teacher: attention to the whole sentence."""
BuildTeacher: TypeAlias = Callable[[Manifest, Vocabulary], Teacher | None]
"""Builds a teacher for data, given as their manifest, and a vocabulary."""


def load_offline(option: str, place: Path) -> tuple[Trained, Model]:
    """Return a trained model that reads the whole sentence first, as files and built.

    Args:
        option: the option that names it, for messages.
        place: a run, a checkpoint or an exported folder.

    Raises:
        UserError: there is no such model, or it writes earlier.
    """
    trained = checkpoints.load(place, option)
    model = trained.build()
    if not model.mechanism.offline:
        raise UserError(
            f"{option}={place} was trained with mechanism={model.mechanism.name}, which writes "
            "before it has read the whole sentence: choose a model trained with mechanism=soft"
        )
    return trained, model


def without_teacher(config: Configuration) -> BuildTeacher:
    """`teacher=none`."""
    return lambda manifest, vocabulary: None


def joint_teacher(encoder: str, lambda_kd: Weight, config: Configuration) -> BuildTeacher:
    """`teacher=joint`: an untrained model of the student's sizes without shared parameters.

    Args:
        encoder: the kind of the teacher's encoder.
        lambda_kd: the weight of the distance between the encoders' states.
        config: the configuration of the run.
    """
    if "encoder" not in config.model:
        raise UserError(
            f"teacher=joint with model.name={config.model['name']}, which has only one kind of "
            "encoder: choose model=transformer, incremental_transformer or rnmt_plus"
        )
    student = {k: v for k, v in config.model.items() if k != "average_embedding"}
    options = student | {"encoder": encoder}
    outline_model(options, FULL)
    return lambda manifest, vocabulary: Joint(build_model(options, FULL, vocabulary), lambda_kd)


def pretrained_teacher(checkpoint: Path, lambda_kd: Weight, config: Configuration) -> BuildTeacher:
    """`teacher=pretrained`: the model of a run whose mechanism reads the whole sentence first.

    Args:
        checkpoint: the run.
        lambda_kd: the weight of the distance between the encoders' states.
        config: the configuration of the run that is taught.
    """
    trained, model = load_offline("teacher.checkpoint", checkpoint)
    if model.dim != (width := config.model.get("dim")):
        raise UserError(
            f"teacher.checkpoint={checkpoint} has model.dim={model.dim}, but the student has "
            f"{width}, so their states cannot be compared: set model.dim={model.dim}"
        )

    def build(manifest: Manifest, vocabulary: Vocabulary) -> Teacher:
        check_manifest(trained.manifest, manifest, [])  # the same subwords and languages
        return Pretrained(model, lambda_kd)

    return build


KINDS: dict[str, Callable[..., BuildTeacher]] = {
    "none": without_teacher,
    "joint": joint_teacher,
    "pretrained": pretrained_teacher,
}


def choose_teacher(config: Configuration) -> BuildTeacher:
    """Return a function that builds the teacher of a `conf/teacher` group.

    Raises:
        UserError: options that do not go together, or no such checkpoint.
    """
    options = dict(config.teacher)
    make = pick(KINDS, kind := options.pop("kind", None), "teacher.kind")
    if kind != "none" and config.model.get("encoder") == REENCODING:
        raise UserError(
            f"teacher.kind={kind} with model.encoder={REENCODING}, whose states change with each "
            "word that is read: choose model.encoder=causal, or teacher=none"
        )
    return construct(make, options, "teacher", {"config": config})
