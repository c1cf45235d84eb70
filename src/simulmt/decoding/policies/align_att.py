"""AlignAtt (Papi et al. 2023): a subword aligned to the newest source subwords waits for more."""

from dataclasses import dataclass

from simulmt.decoding.policies.attended import AttentionPolicy
from simulmt.decoding.policies.hold_n import Held
from simulmt.decoding.policy import Counts, Subword
from simulmt.options import Few, limited


@limited
@dataclass(frozen=True)
class AlignAtt(AttentionPolicy):
    """Stops before the first subword i with `a_i > S - f`, where `a_i = argmax_j attention_ij`.

    Args:
        f: number of newest source subwords to which no written subword is aligned; S are read.
        layer: the decoder layer whose attention counts; None for the one at two thirds.
    """

    f: Held
    layer: Few | None = None

    def halts(self, counts: Counts, word: int, subword: Subword) -> bool:
        """At a subword that is aligned to one of the newest f."""
        attention = subword.attention
        return int(attention.argmax()) + 1 > len(attention) - self.f
