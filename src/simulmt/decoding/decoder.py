"""What translates a batch, chosen by the search and the policy."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from jaxtyping import Bool, Int
from torch import Tensor

from simulmt.decoding.beam import beam_search
from simulmt.decoding.by_policy import decode_by
from simulmt.decoding.greedy import greedy
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.monotonic_beam import monotonic_beam_search
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import Search
from simulmt.models.model import Model

Decode: TypeAlias = Callable[[Model, Int[Tensor, "B S"], Bool[Tensor, "B S"]], Sequence[Hypothesis]]
"""Translates a batch: token ids, and True for real tokens."""


def decoder(
    search: Search, policy: Policy | Sequence[Policy] | None = None, k: int | None = None
) -> Decode:
    """Return what translates a batch.

    Args:
        search: greedy, or beam search for models that read the whole sentence first; with a policy
            the search of the drafts.
        policy: commits words of drafts, as in `decode_by`; None for the model's own decision.
        k: source tokens at the first target token of a monotonic search; None for the usual search.
    """
    if isinstance(policy, Sequence) and policy[0].steps is not None:
        return partial(greedy, steps=[one.steps or () for one in policy])
    if policy is not None:
        return partial(decode_by, policy, search=search)
    if k is not None:
        return partial(monotonic_beam_search, search=search, k=k)
    return greedy if search.beam == 1 else partial(beam_search, search=search)
