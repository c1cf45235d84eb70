"""The teacher of a run, from `conf/teacher`: refused early, built late."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from simulmt.attention import FullSentence, Lookback, Mechanism
from simulmt.builders import build_model, outline_model
from simulmt.data.manifest import check_manifest
from simulmt.errors import UserError
from simulmt.models.reencoding import REENCODING
from simulmt.objective.teacher import Joint, Pretrained, Teacher
from simulmt.options import construct, pick
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained
from simulmt.vocabulary import Vocabulary

FULL = Mechanism(schedule=FullSentence(), span=Lookback(), name="full")
"""The mechanism of a teacher: attention to the whole sentence."""


@dataclass(frozen=True)
class WithoutTeacher:
    """`teacher=none`."""

    config: Mapping[str, Any]

    def build(self, described: Mapping[str, object], vocabulary: Vocabulary) -> None:
        """Nothing."""


@dataclass(frozen=True)
class JointTeacher:
    """`teacher=joint`: of the student's sizes, with an encoder of its own choice."""

    config: Mapping[str, Any]
    encoder: str
    lambda_kd: float

    def __post_init__(self) -> None:
        if "encoder" not in self.config["model"]:
            raise UserError(
                f"teacher=joint with model={self.config['model']['name']}: the model has but one "
                "kind of encoder; take model=incremental_transformer, transformer or rnmt_plus"
            )
        Joint(outline_model(self._options, FULL), self.lambda_kd)

    @property
    def _options(self) -> dict[str, Any]:
        plain = {k: v for k, v in self.config["model"].items() if k != "average_embedding"}
        return plain | {"encoder": self.encoder}

    def build(self, described: Mapping[str, object], vocabulary: Vocabulary) -> Teacher:
        """An untrained teacher, which shares no parameter with the student."""
        return Joint(build_model(self._options, FULL, vocabulary), self.lambda_kd)


@dataclass(frozen=True)
class PretrainedTeacher:
    """`teacher=pretrained`: a run of a mechanism that reads the whole sentence first."""

    config: Mapping[str, Any]
    checkpoint: Any
    lambda_kd: float

    def __post_init__(self) -> None:
        trained = self._trained
        model = trained.build()
        Pretrained(model, self.lambda_kd)
        if not model.mechanism.offline:
            raise UserError(
                f"teacher.checkpoint={self.checkpoint} is a run of {model.mechanism.name}, which "
                "does not read the whole sentence first; take one of mechanism=soft"
            )
        widths = trained.config["model"].get("dim"), self.config["model"].get("dim")
        if widths[0] != widths[1]:
            raise UserError(
                f"teacher.checkpoint={self.checkpoint} has model.dim={widths[0]}, the student "
                f"{widths[1]}: their states cannot be compared; train one of them anew"
            )

    @cached_property
    def _trained(self) -> Trained:
        return checkpoint.load(Path(str(self.checkpoint)))

    def build(self, described: Mapping[str, object], vocabulary: Vocabulary) -> Teacher:
        """The run's model; refused if it was trained on other subwords or languages."""
        check_manifest(self._trained.manifest, described, [])
        return Pretrained(self._trained.build(), self.lambda_kd)


Choice = WithoutTeacher | JointTeacher | PretrainedTeacher
KINDS: dict[str, Callable[..., Choice]] = {
    "none": WithoutTeacher,
    "joint": JointTeacher,
    "pretrained": PretrainedTeacher,
}


def choose_teacher(config: Mapping[str, Any]) -> Choice:
    """The teacher of a `conf/teacher` group, not yet built.

    Raises:
        UserError: options that do not go together, or no such checkpoint.
    """
    kind = config["teacher"].get("kind")
    if kind != "none" and config["model"].get("encoder") == REENCODING:
        raise UserError(
            f"teacher={kind} with model.encoder={REENCODING}: a teacher guides states that stay "
            "what they are; take model.encoder=causal, or teacher=none"
        )
    rest = {name: value for name, value in config["teacher"].items() if name != "kind"}
    make = pick(KINDS, kind, "teacher.kind")
    return construct(make, rest, "teacher", {"config": config})
