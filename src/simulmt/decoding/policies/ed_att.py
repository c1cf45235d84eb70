"""EDAtt (Papi et al. 2023): attention to the newest source subwords asks for more of them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from simulmt.decoding.policies.adaptive_wait_k import Probability
from simulmt.decoding.policies.attended import AttentionPolicy
from simulmt.options import Count, Few, limited


@limited
@dataclass(frozen=True)
class EDAtt(AttentionPolicy):
    """Stops before the first subword i with `sum_{j > S - last} attention_ij >= a`.

    The attention sums to 1 over the S subwords read; the authors' code divides by its L2 norm.

    Args:
        a: the attention that is too much: the smaller, the later words are written.
        last: the number of newest source subwords, lambda in the paper.
        layer: the decoder layer that is looked at; None for the one at two thirds.
    """

    a: Probability
    last: Count = 2
    layer: Few | None = None

    def forbidden(
        self, attention: Float[NDArray[np.float64], "n S"]
    ) -> Bool[NDArray[np.bool_], "n"]:
        """Whether the attention of each subword to the newest ones is too much."""
        return attention[:, -self.last :].sum(1) >= self.a  # type: ignore[no-any-return]
