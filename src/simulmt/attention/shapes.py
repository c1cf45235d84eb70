"""The tensors that most of attention's functions take and return, with their shapes."""

from typing import TypeAlias

from jaxtyping import Float, Int
from torch import Tensor

Queries: TypeAlias = Float[Tensor, "B T D"]
"""The decoder's states of T target steps."""
Keys: TypeAlias = Float[Tensor, "B H S d"]
"""What S source states are compared by, head by head."""
Energies: TypeAlias = Float[Tensor, "B H T S"]
"""How well each query matches each key."""
Weights: TypeAlias = Float[Tensor, "B H T S"]
"""An expected alignment, alpha, or attention, beta."""
TokenIds: TypeAlias = Int[Tensor, "B N"]
"""N successive tokens of each sentence."""
Starts: TypeAlias = Int[Tensor, "#B 1"]
"""The position of the first of some tokens in each sentence, from 0."""
