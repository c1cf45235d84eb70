"""A teacher that knows when to write: recorded stops, such as those of `simulmt oracle`.

The expected alignment of a head tells with which probability it has stopped by source token j. The
ranked probability score (Epstein 1969) compares this with the recorded stop s_i of target step i:

    RPS_i = sum_j (sum_(l<=j) alpha_il - [j >= s_i])^2

For a head that surely stops at one token, this is the number of tokens between it and the stop.
Lost mass counts as a stop after the end of the source.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt.attention import Source
from simulmt.attention.memory import places
from simulmt.attention.shapes import Weights
from simulmt.models.results import Translation
from simulmt.objective.batch import Batch
from simulmt.objective.teacher import Guidance, Teacher
from simulmt.options import Weight, limited


@limited
class RecordedStops(Teacher):
    """Draws all heads of a student to the recorded stops.

    Args:
        stops: of each training pair, for each target token the number of source tokens that are
            read before it, EOS included on both sides.
        weight: of the score, which counts source tokens.
    """

    delays: ClassVar[bool] = True

    def __init__(self, stops: Iterable[Sequence[int]], weight: Weight) -> None:
        super().__init__()
        self.weight = weight
        rows = [torch.tensor(row, dtype=torch.int32) for row in stops]
        ends = torch.tensor([0, *map(len, rows)]).cumsum(0)
        self._ends, self._stops = ends, torch.cat(rows)  # no buffers: DDP would send them each time

    def forward(self, batch: Batch, student: Source, translation: Translation) -> Guidance:
        """The score, a mean over heads, layers and the target tokens of each sentence."""
        mask = batch.target_mask
        self._ends, self._stops = self._ends.to(mask.device), self._stops.to(mask.device)
        place = self._ends[batch.index][:, None] + places(mask, mask.shape[1]) - 1
        stops = self._stops[place.where(mask, 0)]
        with torch.autocast(stops.device.type, enabled=False):  # positions need float32
            scores = [ranked(alpha, stops, batch.source_mask) for alpha in translation.alphas]
        score = torch.cat(scores, 1).mean(1) * mask  # (B, T)
        total = (score.sum(-1) / mask.sum(-1)).sum()
        return Guidance(self.weight * total, {}, {"stops": total.detach()})


def ranked(
    alpha: Weights, stops: Int[Tensor, "B T"], mask: Bool[Tensor, "B S"]
) -> Float[Tensor, "B H T"]:
    """The ranked probability score of each head at each target step.

    Args:
        alpha: expected alignment.
        stops: s_i, from 1.
        mask: True for real source tokens.
    """
    stopped = places(alpha, alpha.shape[-1]) >= stops[..., None]  # (B, T, S)
    apart = (alpha.cumsum(-1) - stopped[:, None].to(alpha.dtype)).square()
    return (apart * mask[:, None, None]).sum(-1)
