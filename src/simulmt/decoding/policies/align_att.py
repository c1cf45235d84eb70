"""AlignAtt (Papi et al. 2023): what is aligned to the newest source subwords waits for more."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from simulmt.decoding.policies.attended import AttentionPolicy
from simulmt.decoding.policies.hold_n import Held
from simulmt.options import Few, limited


@limited
@dataclass(frozen=True)
class AlignAtt(AttentionPolicy):
    """Stops before the first subword i with `a_i > S - f`, where `a_i = argmax_j attention_ij`.

    Args:
        f: newest source subwords that nothing written is aligned to; S subwords are read.
        layer: the decoder layer that is looked at; None for the one at two thirds.
    """

    f: Held
    layer: Few | None = None

    def forbidden(
        self, attention: Float[NDArray[np.float64], "n S"]
    ) -> Bool[NDArray[np.bool_], "n"]:
        """Whether each subword is aligned to one of the newest f."""
        return attention.argmax(1) + 1 > attention.shape[1] - self.f  # type: ignore[no-any-return]
