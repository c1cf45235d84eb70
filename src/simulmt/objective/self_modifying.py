"""SM2: a model learns its confidence in each token from prefixes of the source (Yu et al. 2024).

"Self-Modifying State Modeling for Simultaneous Machine Translation". For each target token

    L = CE(p_full) + CE(c p_prefix + (1 - c) p_full) - penalty log c

where p_full sees the whole source, p_prefix a random prefix of it, which is encoded on its own, and
the confidence c comes from the decoder's state on the prefix. A model that is sure relies on its
own prediction; one that is not pays for the help of the whole source.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from simulmt.attention import Mechanism, Moment
from simulmt.attention.memory import first
from simulmt.attention.moment import uniform
from simulmt.models.model import Model
from simulmt.models.projection import Projection
from simulmt.models.results import Translation
from simulmt.objective.batch import Batch
from simulmt.objective.likelihood import token_losses
from simulmt.objective.objective import Loss, Objective
from simulmt.ops.precision import wide
from simulmt.options import Natural, Share, Weight, limited

_ROWS = 1024
"""Tokens whose probabilities are held at a time."""


@limited
class SelfModifying(Objective):
    """The likelihood of whole sentences, and of prefixes by a mixture of both views.

    Args:
        label_smoothing: probability mass that is spread over the vocabulary, in both terms.
        penalty: weight of `-log c`.
        detach: whether the mixture teaches the prefix branch alone.
        hold: number of first updates without prefixes; 0 in the paper.
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
        """The model needs a confidence."""
        return "" if mechanism.confident else "it has no confidence; take mechanism=sm2"

    def forward(self, model: Model, batch: Batch, moment: Moment) -> Loss:
        """The losses of a batch; those of prefixes in training alone."""
        whole = model(batch.source, batch.source_mask, batch.target_input, moment)
        losses = token_losses(whole.states, whole.output, batch.target, batch.target_mask)
        total = losses.smoothed(self.label_smoothing).sum()
        per_token = {"nll": losses.nll.sum()}
        strength = self.strength(moment.update)
        if moment.draw is not None and strength > 0:
            seen = prefix(batch.source_mask, moment.draw)
            source = batch.source.masked_fill(~seen, model.vocabulary.pad)
            part = model(source, seen, batch.target_input, moment)
            mixed, confidence = self._mixed(part, whole, batch)
            sure = functional.logsigmoid(confidence).sum()
            total = total + strength * (mixed - self.penalty * sure)
            per_token |= {"mixture": mixed, "confidence": confidence.detach().sigmoid().sum()}
        return Loss.of(batch, total, per_token)

    def _mixed(
        self, part: Translation, whole: Translation, batch: Batch
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "N"]]:
        """The smoothed loss of the mixture over all N real tokens, and the logits of c."""
        assert part.confidence is not None, "a confident model has a confidence"
        mask, output = batch.target_mask, part.output
        states, others = part.states[mask], whole.states[mask]
        confidence = wide(part.confidence[mask])
        others = others.detach() if self.detach else others
        given = (x.split(_ROWS) for x in (states, others, confidence, batch.target[mask]))  # type: ignore[no-untyped-call]
        total = confidence.new_zeros(())
        for rows in zip(*given, strict=True):
            total = total + checkpoint(self._rows, output, *rows, use_reentrant=False)
        return total, confidence

    def _rows(
        self,
        output: Projection,
        part: Float[Tensor, "N E"],
        whole: Float[Tensor, "N E"],
        confidence: Float[Tensor, "N"],
        target: Int[Tensor, "N"],
    ) -> Float[Tensor, ""]:
        """The smoothed loss of some tokens."""
        fixed = Projection(*(None if p is None else p.detach() for p in output))  # type: ignore[arg-type]
        one = wide(output(part)).log_softmax(-1)
        two = wide((fixed if self.detach else output)(whole)).log_softmax(-1)
        mixture = torch.logaddexp(
            one + functional.logsigmoid(confidence)[:, None],
            two + functional.logsigmoid(-confidence)[:, None],
        )
        nll = -mixture.gather(1, target[:, None])[:, 0]
        return torch.lerp(nll, -mixture.mean(-1), self.label_smoothing).sum()


def prefix(mask: Bool[Tensor, "B S"], draw: Float[Tensor, "B"]) -> Bool[Tensor, "B S"]:
    """The first m tokens of each sentence, with m uniform over 1, ..., S."""
    return mask & first(mask, uniform(draw, 1, mask.sum(-1)))
