"""SM2: a model learns its confidence in each token from prefixes of the source (Yu et al. 2024).

"Self-Modifying State Modeling for Simultaneous Machine Translation". For each target token

    L = CE(p_full) + CE(c p_prefix + (1 - c) p_full) - penalty log c

where p_full sees the whole source, p_prefix a random prefix of it, which is encoded on its own, and
the confidence c comes from the decoder's state on the prefix. A model that is sure relies on its
own prediction; one that is not pays for the help of the whole source.
"""

from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from simulmt.attention import Mechanism, Moment
from simulmt.attention.memory import first
from simulmt.attention.moment import uniform
from simulmt.models.model import Model
from simulmt.objective.batch import Batch
from simulmt.objective.likelihood import token_losses
from simulmt.objective.mixture import Mix, Views, mixture_losses
from simulmt.objective.objective import Loss, Objective
from simulmt.ops.precision import wide
from simulmt.options import Natural, Share, Weight, limited


@limited
class SelfModifying(Objective):
    """The likelihood of whole sentences, and of prefixes by a mixture of both views.

    Args:
        label_smoothing: probability mass that is spread over the vocabulary, in both terms.
        penalty: weight of `-log c`.
        detach: whether the mixture teaches the prefix branch alone.
        hold: number of updates at the start without prefixes; 0 in the paper.
        warmup: updates over which the weight of the prefixes' terms then grows to 1.
    """

    def __init__(
        self,
        *,
        label_smoothing: Share,
        penalty: Weight,
        detach: bool,
        hold: Natural,
        warmup: Natural,
    ) -> None:
        super().__init__(hold, warmup)
        self.label_smoothing = label_smoothing
        self.penalty = penalty
        self.detach = detach

    def misfit(self, mechanism: Mechanism) -> str:
        """Why the mechanism does not fit, if its model has no confidence; else empty."""
        return "" if mechanism.confident else "it has no confidence; take mechanism=sm2"

    def forward(self, model: Model, batch: Batch, moment: Moment) -> Loss:
        """The losses of a batch; those of prefixes in training alone."""
        source = model.encode(batch.source, batch.source_mask, batch.past)
        whole = model.decode(source, batch.target_input, moment)
        strength, mask = self.strength(moment.update), batch.target_mask
        if moment.draw is None or strength == 0:
            losses = token_losses(whole.states, whole.output, batch.target, mask)
            assert whole.confidence is not None, "a confident model has a confidence"
            unused = 0 * whole.confidence.sum()  # DDP wants a gradient of each parameter
            total = losses.smoothed(self.label_smoothing).sum() + unused
            return Loss.of(batch, total, {"nll": losses.nll.sum()})
        seen = prefix(batch.source_mask, moment.draw)
        if model.extends and not model.reads_words:  # the states of the prefix are known
            source = source._replace(mask=seen)
        else:
            prefixes = batch.source.masked_fill(~seen, model.vocabulary.pad)
            source = model.encode(prefixes, seen, batch.past)
        part = model.decode(source, batch.target_input, moment)
        assert part.confidence is not None, "a confident model has a confidence"
        of_all = part.states, whole.states, part.confidence, batch.target
        views = Views(*(x[mask] for x in of_all))
        mix = Mix(self.label_smoothing, strength, self.detach)
        total, nll, mixture = mixture_losses(views, whole.output, mix)
        c = wide(views.confidence)
        total = total - strength * self.penalty * functional.logsigmoid(c).sum()
        per_token = {"nll": nll, "mixture": mixture, "confidence": c.detach().sigmoid().sum()}
        return Loss.of(batch, total, per_token)


def prefix(mask: Bool[Tensor, "B S"], draw: Float[Tensor, "B"]) -> Bool[Tensor, "B S"]:
    """The first m tokens of each sentence, with m uniform over 1, ..., S."""
    return mask & first(mask, uniform(draw, 1, mask.sum(-1)))
