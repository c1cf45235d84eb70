"""HMT: several moments at which each target token may be translated (Zhang & Feng 2023).

"Hidden Markov Transformer for Simultaneous Machine Translation". Target token i has K states. State
n, from 0, has read `c(i, n) = min(max(L + i - 1 + n, 1), S)` source tokens. The model decides at
each state whether to translate there or to wait for the next (`simulmt.models.several_states`).
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

import torch
from annotated_types import Ge, Gt, Le
from jaxtyping import Bool, Int
from torch import Tensor

from simulmt.attention.clock import SeveralStates, Ticks, Timetable, after
from simulmt.attention.clocks.wait_k import LONGEST
from simulmt.attention.memory import first, places
from simulmt.attention.moment import Moment
from simulmt.attention.plan import Plan, Stops
from simulmt.attention.source import Source
from simulmt.options import limited

_First: TypeAlias = Annotated[int, Ge(-100), Le(LONGEST)]
_States: TypeAlias = Annotated[int, Ge(2), Le(100)]  # one state is wait-k
_Threshold: TypeAlias = Annotated[float, Gt(0), Le(1)]


@limited
@dataclass(frozen=True)
class HiddenMarkov(Timetable, SeveralStates):
    """The options of HMT, and what its states have read.

    Args:
        first_read: L, the source tokens, or words, that the first state of the first target token
            has read.
        states: K, the number of states of each target token.
        threshold: a token is translated at the first state whose probability to translate is at
            least this; 0.5 in the paper.
    """

    dials: ClassVar[tuple[str, ...]] = ("threshold", "first_read", "states")
    first_read: _First
    states: _States
    threshold: _Threshold = 0.5

    def wanted(self, step: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
        """`max(L + i - 1, 1)`: what the first state of token i reads of an endless source."""
        return (self.first_read + step - 1).clamp(min=1)

    def plan(self, source: Source, target: Int[Tensor, "B T"], moment: Moment) -> Plan:
        """The stops of T * K steps: K states for each target token."""
        wanted = self._of_states(target, target.shape[1]).expand(len(target), -1)
        return Plan(Stops(after(wanted, source.stops)[:, None]))

    def reads(self, ticks: Ticks, tokens: int) -> tuple[Int[Tensor, "B N"], Bool[Tensor, "B N"]]:
        """State n, from 0, reads n tokens or words more than `wanted`; after EOS none waits."""
        stops = ticks.stops & first(ticks.stops, ticks.read)
        wanted = self._of_states(stops, tokens).expand(len(stops), -1)
        ready = (wanted <= stops.sum(-1)[:, None]) | ticks.finished[:, None]
        return after(wanted, stops), ready

    def _of_states(self, like: Tensor, tokens: int) -> Int[Tensor, "N"]:
        """`max(L + i - 1 + n, 1)`, state by state, token by token."""
        later = torch.arange(self.states, device=like.device)
        return self.wanted(places(like, tokens)[:, None] + later).flatten()
