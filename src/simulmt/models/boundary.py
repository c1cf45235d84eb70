"""Where a segment of a stream ends in the source: a pointer of the decoder.

A translator of a stream writes EOS where it believes that a sentence has ended, after it has read
into the next one. The decoder's state that writes EOS then points at the last source token of the
segment:

    p(j) = softmax_j( W_q s . W_k h_j / sqrt(D) )
"""

import math

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from simulmt.ops.precision import wide


class BoundaryPointer(nn.Module):
    """The pointer.

    Args:
        width: width E of the decoder's last states.
        dim: width D of source states.
    """

    def __init__(self, width: int, dim: int) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(width, dim), nn.Linear(dim, dim)

    def forward(
        self,
        state: Float[Tensor, "B E"],
        source: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B S"]:
        """The log probability of each source token to be the last one of the segment.

        Args:
            state: the decoder's states that write EOS.
            source: source states.
            mask: True for the tokens that may be the last one.
        """
        query = self.query(state)[:, None] / math.sqrt(source.shape[-1])  # (B, 1, D)
        energy = wide((query * self.key(source)).sum(-1))
        return energy.masked_fill(~mask, -math.inf).log_softmax(-1)

    def loss(
        self,
        states: Float[Tensor, "B T E"],
        source: Float[Tensor, "B S D"],
        target_mask: Bool[Tensor, "B T"],
        mask: Bool[Tensor, "B S"],
        ends: Int[Tensor, "B"],
    ) -> Float[Tensor, ""]:
        """Minus the log probability of the true ends, summed over the segments that end.

        Args:
            states: the decoder's last states; the last real one of a segment that ends writes EOS.
            source: source states.
            target_mask: True for real target tokens.
            mask: True for real source tokens.
            ends: the number of source tokens of each segment; 0 for one that does not end.
        """
        last = target_mask.sum(-1) - 1
        index = last[:, None, None].expand(-1, 1, states.shape[-1])
        found = self(states.gather(1, index)[:, 0], source, mask)
        return functional.nll_loss(found, ends - 1, reduction="sum", ignore_index=-1)
