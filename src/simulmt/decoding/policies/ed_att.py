"""EDAtt (Papi et al. 2023): attention to the newest source subwords means that more are needed."""

from dataclasses import dataclass

from simulmt.decoding.policies.attended import AttentionPolicy
from simulmt.decoding.policy import Counts, Subword
from simulmt.options import Chance, Count, Few, limited


@limited
@dataclass(frozen=True)
class EDAtt(AttentionPolicy):
    """Stops before the first subword i with `sum_{j > S - last} attention_ij >= a`.

    The attention sums to 1 over the S subwords read, without the EOS that closes a prefix for an
    encoder trained on whole sentences. The authors' code divides by the L2 norm instead.

    Args:
        a: the attention from which on a subword waits; a smaller value waits longer.
        last: the number of newest source subwords, lambda in the paper.
        layer: the decoder layer whose attention counts; None for the one at two thirds.
    """

    a: Chance
    last: Count = 2
    layer: Few | None = None

    def halts(self, counts: Counts, word: int, subword: Subword) -> bool:
        """At a subword whose attention to the newest ones is too much."""
        newest = float(subword.attention[-self.last :].sum())
        all_of_it = not subword.attention[: -self.last].any()  # a sum may fall short of a = 1
        return newest >= self.a or all_of_it
