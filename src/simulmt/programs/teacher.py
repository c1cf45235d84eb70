"""The teacher of a run, from `conf/teacher`: checked before data are read, built afterwards."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from simulmt.attention import FullSentence, Lookback, Mechanism
from simulmt.data.manifest import check_manifest
from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.recorded import Recorded, check_text, read_recorded
from simulmt.errors import UserError
from simulmt.models.model import Model
from simulmt.models.reencoding import REENCODING
from simulmt.objective.recorded_stops import RecordedStops
from simulmt.objective.teacher import Joint, Pretrained, Teacher
from simulmt.options import Weight, construct, pick
from simulmt.parts.builders import build_mechanism, build_model, outline_model
from simulmt.parts.configuration import Configuration
from simulmt.programs.data import RunData
from simulmt.saved import checkpoint as checkpoints
from simulmt.saved.trained import Trained

FULL = Mechanism(schedule=FullSentence(), span=Lookback(), name="full")
"""The mechanism of a teacher: attention to the whole sentence."""
BuildTeacher: TypeAlias = Callable[[RunData], Teacher | None]
"""Builds the teacher of a run from its data."""


def load_offline(option: str, place: Path) -> tuple[Trained, Model]:
    """Return a trained model that reads the whole sentence first, and the model built from it.

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
    return lambda data: None


def joint_teacher(
    encoder: Literal["bidirectional", "causal"], lambda_kd: Weight, config: Configuration
) -> BuildTeacher:
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
    own = ("average_embedding", "boundaries", "history")
    options = {k: v for k, v in config.model.items() if k not in own} | {"encoder": encoder}
    outline_model(options, FULL)

    def build(data: RunData) -> Teacher:
        return Joint(build_model(options, FULL, data.subwords.vocabulary), lambda_kd)

    return build


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

    def build(data: RunData) -> Teacher:
        check_manifest(trained.manifest, data.manifest, [])  # the same subwords and languages
        return Pretrained(model, lambda_kd)

    return build


def recorded_stops(file: Path, weight: Weight, config: Configuration) -> BuildTeacher:
    """`teacher=stops`: what to have read before each reference word, such as by `simulmt oracle`.

    Args:
        file: a file as of `simulmt.decoding.recorded`, of the training pairs.
        weight: of the score.
        config: the configuration of the run.
    """
    option = f"teacher.file={file}"
    if not (mechanism := build_mechanism(config.mechanism)).learned:
        raise UserError(
            f"{option} with mechanism={mechanism.name}, whose decisions have no gradient: choose a "
            "mechanism with learned heads, such as mma_il, or teacher=none"
        )
    if config.data.get("documents"):
        raise UserError(
            f"{option} is of single sentences: set data.documents=false, or teacher=none"
        )
    if not file.is_file():
        raise UserError(f"{option} does not exist: write it with simulmt oracle split=train")

    def build(data: RunData) -> Teacher:
        split, subwords = data.corpus.splits["train"], data.subwords
        found = read_recorded(file)
        check_text(found, split.sources, option)
        pairs = enumerate(zip(found, split.sources, split.targets, strict=True), 1)
        stops = (stops_of(f"{option}, sentence {n}", subwords, *pair) for n, pair in pairs)
        return RecordedStops(stops, weight)

    return build


def stops_of(where: str, subwords: Tokenizer, one: Recorded, source: str, target: str) -> list[int]:
    """The source tokens read before each token of a reference; before its EOS all of them.

    Raises:
        UserError: the reference has a different number of words; the message begins with `where`.
    """
    words, read_words = subwords.reference_words(target), subwords.source_words(source)
    ends = read_words.ends or [1]
    count = words[-1] if words else len(one.reads)  # a reference may have no subword
    if len(one.reads) != count:
        raise UserError(
            f"{where} has {len(one.reads)} delays, but the reference has {count} words: give a "
            "file of the references, as simulmt oracle writes it"
        )
    own = [ends[max(min(read, len(ends)), 1) - 1] for read in one.reads]
    return [*(own[word - 1] for word in words), len(read_words) + 1]


KINDS: dict[str, Callable[..., BuildTeacher]] = {
    "none": without_teacher,
    "joint": joint_teacher,
    "pretrained": pretrained_teacher,
    "stops": recorded_stops,
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
