"""A full-sentence model that teaches an incremental encoder to anticipate.

Zhang et al. (2021), "Future-Guided Incremental Transformer for Simultaneous Translation":

    L = L(incremental) + L(full) + lambda_kd * 1/n sum_i || z_i^incremental - z_i^full ||^2

with the states z of the last encoder layer and n source tokens. The teacher is trained beside the
student, or was before. It shares nothing with the student and is gone afterwards: no model that is
saved to be used holds any of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from simulmt.data.batches import Batch
from simulmt.errors import UserError
from simulmt.models.model import Model


class Guidance(NamedTuple):
    """Sums over a batch."""

    total: Float[Tensor, ""]
    """What is minimised beside the student's own loss."""
    distance: Float[Tensor, ""] | None
    """Squared distance of the encoders' states, a mean over the tokens of each sentence."""
    nll: Float[Tensor, ""] | None
    """Negative log-likelihood of the teacher, in nats."""
    sentences: int

    def figures(self, tokens: int) -> dict[str, float]:
        """What is logged: distance a sentence, nats a token."""
        found = {}
        if self.distance is not None:
            found["distance"] = float(self.distance.detach()) / self.sentences
        if self.nll is not None:
            found["teacher_nll"] = float(self.nll.detach()) / tokens
        return found


class Teacher(nn.Module, ABC):
    """What is minimised beside a student's own loss."""

    @abstractmethod
    def forward(self, batch: Batch, states: Float[Tensor, "B S W"]) -> Guidance:
        """Guide the student.

        Args:
            batch: the sentences.
            states: the student's source states, whatever else follows them in the last dimension.
        """


class NoTeacher(Teacher):
    """Nothing."""

    def forward(self, batch: Batch, states: Float[Tensor, "B S W"]) -> Guidance:
        """Nothing is added."""
        return Guidance(states.new_zeros(()), None, None, len(states))


class Joint(Teacher):
    """A teacher that is trained beside the student; each is drawn to the other.

    Args:
        model: reads the whole sentence first.
        lambda_kd: weight of the distance.
        width: of the states that are compared; what follows them, averages, is not.
    """

    def __init__(self, model: Model, lambda_kd: float, width: int) -> None:
        super().__init__()
        self.width = width
        self.model = model
        self.lambda_kd = _checked(lambda_kd)

    def forward(self, batch: Batch, states: Float[Tensor, "B S W"]) -> Guidance:
        """Its own likelihood, and the distance."""
        full = self.model.encode(batch.source, batch.source_mask)
        out = self.model.decode(full, batch.source_mask, batch.target_input)
        nll = likelihood(out.logits, batch.target, batch.target_mask)
        apart = distance(states, full, batch.source_mask, self.width)
        return Guidance(nll + self.lambda_kd * apart, apart, nll, len(states))


class Pretrained(Teacher):
    """A teacher that has been trained and stays as it is.

    Args:
        model: reads the whole sentence first.
        lambda_kd: weight of the distance.
        width: of the states that are compared; what follows them, averages, is not.
    """

    def __init__(self, model: Model, lambda_kd: float, width: int) -> None:
        super().__init__()
        self.width = width
        self.model = model.requires_grad_(False).train()  # or Lightning wonders at it
        self.lambda_kd = _checked(lambda_kd)

    def forward(self, batch: Batch, states: Float[Tensor, "B S W"]) -> Guidance:
        """The distance, without dropout on its side."""
        self.model.eval()
        with torch.no_grad():
            full = self.model.encode(batch.source, batch.source_mask)
        apart = distance(states, full, batch.source_mask, self.width)
        return Guidance(self.lambda_kd * apart, apart, None, len(states))


def distance(
    student: Float[Tensor, "B S W"],
    full: Float[Tensor, "B S V"],
    mask: Bool[Tensor, "B S"],
    width: int,
) -> Float[Tensor, ""]:
    """`1/n sum_i ||z_i - z_i^full||^2` over the first `width` numbers, a sum over sentences."""
    apart = (student[..., :width] - full[..., :width]).float().square().sum(-1)  # (B, S)
    return ((apart * mask).sum(1) / mask.sum(1)).sum()


def likelihood(
    logits: Float[Tensor, "B T V"], target: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]
) -> Float[Tensor, ""]:
    """Negative log-likelihood of the targets."""
    scores = logits.float().log_softmax(-1)
    return -(scores.gather(-1, target[..., None])[..., 0] * mask).sum()


def _checked(lambda_kd: float) -> float:
    if not 0 <= lambda_kd < float("inf"):
        raise UserError(f"teacher.lambda_kd is {lambda_kd}; it must be at least 0, and finite")
    return lambda_kd
