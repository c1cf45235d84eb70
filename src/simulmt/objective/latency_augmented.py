"""The latency-augmented objective: likelihood, latency and variance (MILk; MMA; EMMA).

    L = sum over sentences [-log p(y|x) + lambda * L_avg + lambda_var * L_var] / target tokens

(MILk eq. 15; MMA eq. 17.) Losses of clocks and schedules join the sum with their own weights. A
teacher adds terms, too (`simulmt.objective.teacher`).
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from simulmt import latency
from simulmt.attention import Mechanism, Moment
from simulmt.attention.mechanism import Unit
from simulmt.attention.memory import first
from simulmt.attention.shapes import Weights
from simulmt.models.model import Model
from simulmt.models.results import Translation
from simulmt.objective.batch import Batch
from simulmt.objective.delays import (
    alignment_variance,
    expected_delays,
    head_divergence,
    weighted_delay,
)
from simulmt.objective.likelihood import token_losses
from simulmt.objective.objective import Loss, Objective
from simulmt.objective.teacher import Teacher
from simulmt.options import Finite, Natural, Share, Weight, limited, pick

LATENCIES = {
    "dal": latency.differentiable_average_lagging,
    "ap": latency.average_proportion,
}
"""What `objective.latency` can name."""
LOST_MASS = {"length": 1, "nothing": 0}
"""The delay of attention that ran off the end, as a multiple of the source's length."""


@limited
class LatencyAugmented(Objective):
    """Likelihood, and latency terms that push a model to write early.

    Args:
        lambda_: lambda, the weight of the latency.
        lambda_var: the weight of the variance.
        label_smoothing: probability mass that is spread over the vocabulary.
        latency: `dal` or `ap`.
        latency_unit: what delays count: source subwords, or words, with the word of a subword as
            its place.
        variance: `heads`, that of the delays over the heads, or `alignment`, that of the place
            where a head stops.
        lost_mass: the expected delay of attention that ran off the end: `length`, the source's
            length, or `nothing`, as in the MILk paper without mass preservation.
        hold: updates during which lambda and lambda_var are held at 0.
        warmup: updates over which both weights then grow linearly to their values.
        terms: weights of the losses of clocks and schedules, by name.
        teacher: adds terms; None for no teacher.

    Raises:
        UserError: an unknown latency or lost mass.
    """

    points: ClassVar[bool] = True

    def __init__(
        self,
        *,
        lambda_: Weight,
        lambda_var: Weight,
        label_smoothing: Share,
        latency: str,
        latency_unit: Unit,
        variance: Literal["heads", "alignment"],
        lost_mass: str,
        hold: Natural,
        warmup: Natural,
        terms: dict[str, Finite],
        teacher: Teacher | None = None,
    ) -> None:
        super().__init__(hold, warmup)
        self.lambda_ = lambda_
        self.lambda_var = lambda_var
        self.label_smoothing = label_smoothing
        self.latency = pick(LATENCIES, latency, "objective.latency")
        self.latency_unit = latency_unit
        self.variance = variance
        self.lost_mass = pick(LOST_MASS, lost_mass, "objective.lost_mass")
        self.terms = terms
        self.teacher = teacher

    def misfit(self, mechanism: Mechanism) -> str:
        """Why the mechanism does not fit, if part of it would not be trained; else empty."""
        if mechanism.several_states:
            return "each token has several states; take objective=hmt"
        if {*(losses := mechanism.schedule.losses)} != self.terms.keys():
            weighed, own = (", ".join(names) or "none" for names in (self.terms, losses))
            terms = f"objective.terms has weights of {weighed}, but its losses are {own}"
            return f"{terms}; give each of these a weight, and no other"
        return "nothing would train its confidence; take objective=sm2" * mechanism.confident

    def needs_delays(self) -> bool:
        """True if a latency weight is above 0, or a teacher knows when to write."""
        return self.grows() or (self.teacher is not None and self.teacher.delays)

    def grows(self) -> bool:
        """True if a latency weight is above 0."""
        return self.lambda_ > 0 or self.lambda_var > 0

    def weights(self, update: int) -> Mapping[str, float]:
        """The weight of the latency under the name `lambda`."""
        return {"lambda": self.lambda_ * self.strength(update)}

    def forward(self, model: Model, batch: Batch, moment: Moment) -> Loss:
        """The losses of one pass through the model; in training the teacher's terms are added."""
        source = model.encode(batch.source, batch.source_mask, batch.past)
        translation = model.decode(source, batch.target_input, moment)
        ends = None
        if self.latency_unit == "word" and translation.alphas:
            ends = model.word_ends(batch.source, batch.source_mask)
        loss = self.loss(translation, batch, moment.update, ends)
        if model.boundary is not None:
            masks = batch.target_mask, batch.source_mask
            last = batch.target.gather(1, batch.target_mask.sum(-1, keepdim=True) - 1)[:, 0]
            ends = batch.source_end.where(last == model.vocabulary.eos, 0)
            pointed = model.boundary.loss(translation.states, source.states, *masks, ends)
            loss = loss.plus(pointed, {}, {"boundary": pointed.detach()})
        if self.teacher is None or not self.training:
            return loss
        return loss.plus(*self.teacher(batch, source, translation))

    def loss(
        self,
        translation: Translation,
        batch: Batch,
        update: int,
        ends: Bool[Tensor, "B S"] | None = None,
    ) -> Loss:
        """The losses of a translation with the weights at `update`, from 0.

        Args:
            translation: of the batch.
            batch: sentences with their references.
            update: of the training.
            ends: True at the last subword of each source word, if delays count words.
        """
        states, output = translation.states, translation.output
        losses = token_losses(states, output, batch.target, batch.target_mask)
        smoothed, nll = losses.smoothed(self.label_smoothing).sum(), losses.nll.sum()
        total, per_sentence = smoothed, dict[str, Tensor]()
        if translation.alphas:
            with torch.autocast(smoothed.device.type, enabled=False):  # positions need float32
                lag, variance = self._latency(translation.alphas, batch, ends)
            late = self.lambda_ * lag + self.lambda_var * variance
            total = smoothed + self.strength(update) * late
            per_sentence = {"latency": lag, "variance": variance}
        assert translation.losses.keys() == self.terms.keys(), "those that the recipe declares"
        for name, value in translation.losses.items():
            per_sentence[name] = value.sum()
            total = total + self.terms[name] * per_sentence[name]
        return Loss.of(batch, total, {"nll": nll}, per_sentence)

    def _latency(
        self, alphas: Sequence[Weights], batch: Batch, ends: Bool[Tensor, "B S"] | None
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """L_avg and L_var, summed over sentences; EOS counts in both lengths."""
        ends = batch.source_mask if ends is None else ends
        followed = batch.source_lengths - batch.source_end  # 1 with EOS or a next sentence
        own = (ends & first(ends, batch.source_end)).sum(-1) + followed
        lengths = own, batch.target_mask.sum(-1)
        place = ends.cumsum(-1) - ends.long() + 1  # of a subword, or of its word, from 1
        delays = expected_delays(alphas, place, self.lost_mass * lengths[0])
        lag = self.latency(weighted_delay(delays), *lengths).sum()
        if self.variance == "heads":
            variance = head_divergence(delays)  # (B, T)
        else:
            variance = alignment_variance(alphas, place)
        return lag, ((variance * batch.target_mask).sum(-1) / lengths[1]).sum()
