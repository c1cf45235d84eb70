"""Teachers add terms to a student's loss; a full-sentence model teaches its encoder to anticipate.

Zhang et al. (2021), "Future-Guided Incremental Transformer for Simultaneous Translation":

    L = L(incremental) + L(full) + lambda_kd * 1/n sum_i || z_i^incremental - z_i^full ||^2

with the states z of the last encoder layer and n source tokens. The teacher is trained beside the
student (`Joint`) or has been trained before (`Pretrained`). Teacher and student share no parameter.
Checkpoints hold the teacher's parameters, to resume; a loaded or exported model does not.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from simulmt.attention import Source
from simulmt.models.model import Model
from simulmt.models.results import Translation
from simulmt.objective.batch import Batch
from simulmt.objective.likelihood import token_losses
from simulmt.options import Weight, limited


class Guidance(NamedTuple):
    """Sums over a batch that a teacher adds to the student's loss."""

    total: Float[Tensor, ""]
    """The sum that is minimised."""
    per_token: Mapping[str, Float[Tensor, ""]]
    """`teacher_nll`: negative log-likelihood of the teacher in nats; empty if it is not trained."""
    per_sentence: Mapping[str, Float[Tensor, ""]]
    """`distance`: squared distance of the encoders' states, a mean over each sentence's tokens;
    `stops`: how far heads stop from recorded stops."""


class Teacher(nn.Module, ABC):
    """Adds terms to the loss of a student, in training only."""

    delays: ClassVar[bool] = False
    """True if it teaches the student when to write."""

    @abstractmethod
    def forward(self, batch: Batch, student: Source, translation: Translation) -> Guidance:
        """The terms of the teacher for a batch.

        Args:
            batch: the sentence pairs.
            student: the batch's source sentences, encoded by the student.
            translation: of the batch, by the student.
        """


@limited
class FutureGuide(Teacher):
    """A model that reads the whole sentence first, and draws the student's encoder to its own.

    Args:
        model: the teacher.
        lambda_kd: weight of the distance.
    """

    def __init__(self, model: Model, lambda_kd: Weight) -> None:
        super().__init__()
        self.model = model
        self.lambda_kd = lambda_kd


class Joint(FutureGuide):
    """A teacher that is trained beside the student; the distance has gradients for both."""

    def forward(self, batch: Batch, student: Source, translation: Translation) -> Guidance:
        """The teacher's own negative log-likelihood, and the distance."""
        source = self.model.encode(batch.source, batch.source_mask)
        states, output, *_ = self.model.decode(source, batch.target_input)
        nll = token_losses(states, output, batch.target, batch.target_mask).nll.sum()
        apart = distance(student.states, source.states, batch.source_mask)
        logged = {"teacher_nll": nll.detach()}, {"distance": apart.detach()}
        return Guidance(nll + self.lambda_kd * apart, *logged)


class Pretrained(FutureGuide):
    """A teacher that has been trained before and is not trained further."""

    def __init__(self, model: Model, lambda_kd: Weight) -> None:
        frozen = model.requires_grad_(False).train()  # Lightning warns of one in eval mode
        super().__init__(frozen, lambda_kd)

    def forward(self, batch: Batch, student: Source, translation: Translation) -> Guidance:
        """The distance; the teacher has no dropout."""
        self.model.eval()
        with torch.no_grad():
            source = self.model.encode(batch.source, batch.source_mask)
        apart = distance(student.states, source.states, batch.source_mask)
        return Guidance(self.lambda_kd * apart, {}, {"distance": apart.detach()})


def distance(
    student: Float[Tensor, "B S D"], full: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]
) -> Float[Tensor, ""]:
    """`1/n sum_i ||z_i - z_i^full||^2` over the n tokens of a sentence, summed over sentences."""
    apart = (student - full).float().square().sum(-1)  # (B, S)
    return ((apart * mask).sum(1) / mask.sum(1)).sum()
