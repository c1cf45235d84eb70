"""HMT: the likelihood of a translation over all moments to write (Zhang & Feng 2023).

"Hidden Markov Transformer for Simultaneous Machine Translation". Summed over sentences,

    L = -log sum over all paths of states p(path, y | x)
        + states / K * cross-entropy of each of the K states of each token
        + latency * mean over tokens of E[c_i - c(i, 0)]

divided by the number of target tokens. A path takes each token from one of its states and never
reads less than before. E is the mean over the paths by their own probability: how likely the tokens
are at their states does not count.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from simulmt.attention import Mechanism, Moment
from simulmt.models.model import Model
from simulmt.objective.batch import Batch
from simulmt.objective.likelihood import token_losses
from simulmt.objective.objective import Loss, Objective
from simulmt.ops.hidden_markov import forward_algorithm, log_likelihood
from simulmt.ops.precision import wide
from simulmt.options import Natural, Share, Weight, limited


@limited
class MarginalLikelihood(Objective):
    """The marginal likelihood, the likelihood of each state, and the expected latency.

    Args:
        label_smoothing: probability mass that is spread over the vocabulary, in the likelihood of
            each state.
        states: weight of that likelihood; 1 in the paper.
        latency: weight of the latency; 1 in the paper.
        hold: number of updates at the start without the latency; 0 in the paper.
        warmup: updates over which the weight of the latency then grows to its value.
    """

    def __init__(
        self,
        *,
        label_smoothing: Share,
        states: Weight,
        latency: Weight,
        hold: Natural,
        warmup: Natural,
    ) -> None:
        super().__init__(hold, warmup)
        self.label_smoothing = label_smoothing
        self.states = states
        self.latency = latency

    def misfit(self, mechanism: Mechanism) -> str:
        """Why the mechanism does not fit, if it gives a token one state; else empty."""
        return "" if mechanism.several_states else "each token has one state; take mechanism=hmt"

    def grows(self) -> bool:
        """True if the latency has a weight."""
        return self.latency > 0

    def forward(self, model: Model, batch: Batch, moment: Moment) -> Loss:
        """The losses of a batch."""
        found = model(batch.source, batch.source_mask, batch.target_input, moment)
        reads, confidence = found.reads, found.confidence
        assert reads is not None, "checked by `misfit`"
        assert confidence is not None, "with several states comes a confidence"
        among = reads.shape  # (B, T, K)
        target, mask = (x[..., None].expand(among) for x in (batch.target, batch.target_mask))
        states, target, mask = found.states.flatten(1, 2), target.flatten(1), mask.flatten(1)
        losses = token_losses(states, found.output, target, mask, equal=False)
        each = losses.smoothed(self.label_smoothing).sum() / among[-1]
        translate, tokens = log_translate(confidence), batch.target_mask.sum(-1)
        log_f = forward_algorithm(translate, -losses.nll.view(among), reads)
        nll = -log_likelihood(log_f, tokens).sum()
        log_p = forward_algorithm(translate, torch.zeros_like(translate), reads)
        late = (log_p.exp() * (reads - reads[..., :1])).sum(-1) * batch.target_mask  # (B, T)
        lag = (late.sum(-1) / tokens).sum()
        latency = self.latency * self.strength(moment.update) * lag
        total = nll + self.states * each + latency
        return Loss.of(batch, total, {"nll": nll, "states": each}, {"latency": lag})


def log_translate(confidence: Float[Tensor, "B T K"]) -> Float[Tensor, "B T K"]:
    """Log t(i, n): translate at state n and wait at all states before; at the last, translate.

    Args:
        confidence: the logit of translating at each state; that of the last does not count.
    """
    logit = wide(confidence)[..., :-1]
    waits = functional.logsigmoid(-logit).cumsum(-1)
    return functional.pad(waits, (1, 0)) + functional.pad(functional.logsigmoid(logit), (0, 1))
