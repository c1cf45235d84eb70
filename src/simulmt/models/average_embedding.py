"""The average embedding layer: what was read, summed up, beside what a causal encoder knows of it.

Zhang et al. (2021), "Future-Guided Incremental Transformer for Simultaneous Translation": a step
that has read g tokens attends over `z_j + f_g`, where `f_g = W A_g` and `A_g` is the mean of the
first g source embeddings. So a state of the source takes in tokens that came after it, and yet
nothing is encoded twice.

`f_g` is the same for all j. It moves all energies of a query alike, which a softmax does not see,
and it moves the average of the values by its own value. What is left to compute is

    context_t = sum_j beta_tj V z_j + V f_g(t)

(for learned schedules in expectation over g, head by head), which needs no states for each g. A
learned schedule decides where to stop by z_j alone: there a shift of the energies would matter.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from simulmt.attention import Attended, Attention, Memory, Stepped
from simulmt.attention.scores import join_heads, split_heads
from simulmt.errors import UserError


class AverageEmbedding(nn.Module):
    """`f_i = W A_i` of every prefix.

    Args:
        dim: width D of embeddings and states.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.project = nn.Linear(dim, dim, bias=False)
        nn.init.xavier_uniform_(self.project.weight)

    def forward(
        self,
        embedded: Float[Tensor, "B N D"],
        total: Float[Tensor, "B D"],
        count: Int[Tensor, "B"],
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B D"]]:
        """The averages after each of N more tokens, and the new total.

        Args:
            embedded: embeddings of the tokens.
            total: sum of the embeddings before them.
            count: how many these were.
        """
        N = embedded.shape[1]
        totals = total[:, None] + embedded.to(total.dtype).cumsum(1)
        counts = count[:, None] + torch.arange(1, N + 1, device=count.device)
        average = (totals / counts[..., None]).to(embedded.dtype)
        return self.project(average), totals[:, -1]


class Guided(NamedTuple):
    """The source as this attention sees it."""

    memory: Memory
    averages: Float[Tensor, "B H S d"]
    """`V f_g` for each g, by head."""


class GuidedAttention(nn.Module):
    """An attention over `z_j + f_g` instead of `z_j`, whatever its schedule and span.

    It takes states of twice the width: `z_j` and, beside it, `f_j`.

    Args:
        attention: the one over `z_j`; with a softmax of energies that are linear in the states.

    Raises:
        UserError: another one.
    """

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        if not attention.score.linear or attention.span.dampens:
            raise UserError(
                "model.average_embedding adds the average of what was read to every state, which "
                "is defined for a softmax of scores that are linear in the states; take "
                "mechanism.score=usual and a span without a Gaussian, or average_embedding=false"
            )
        self.attention = attention

    def memory(
        self,
        states: Float[Tensor, "B S 2*D"],
        mask: Bool[Tensor, "B S"],
        finished: Bool[Tensor, "B"],
    ) -> Guided:
        """Project the source states and the averages once."""
        contextual, average = states.chunk(2, -1)
        memory = self.attention.memory(contextual, mask, finished)
        return Guided(memory, self._projected(average))

    def extend(
        self, memory: Guided, states: Float[Tensor, "B N 2*D"], finished: Bool[Tensor, "B"]
    ) -> Guided:
        """The memory with more source states."""
        contextual, average = states.chunk(2, -1)
        longer = self.attention.extend(memory.memory, contextual, finished)
        return Guided(longer, torch.cat([memory.averages, self._projected(average)], 2))

    def initial_state(self, memory: Guided) -> Tensor:
        """That of the schedule, in expectation."""
        return self.attention.initial_state(memory.memory)

    def initial_position(self, memory: Guided) -> Int[Tensor, "B H"]:
        """That of the schedule, standing."""
        return self.attention.initial_position(memory.memory)

    def forward(self, query: Float[Tensor, "B T D"], memory: Guided, state: Tensor) -> Attended:
        """Contexts of T target steps in expectation."""
        attended = self.attention(query, memory.memory, state)
        stops = self.attention.schedule.known_stops(query.shape[1], memory.memory, state)
        if stops is not None:
            added = self._at(stops, memory)
        else:
            assert attended.alpha is not None, "where nothing is known, it was computed"
            added = attended.alpha.to(memory.averages.dtype) @ memory.averages
        context = attended.context + self._output(added)
        return attended._replace(context=context)  # type: ignore[no-any-return]

    def step(
        self, query: Float[Tensor, "B 1 D"], memory: Guided, state: Int[Tensor, "B H"]
    ) -> Stepped:
        """One hard target step."""
        stepped = self.attention.step(query, memory.memory, state)
        added = self._at(stepped.position[..., None], memory)
        return stepped._replace(context=stepped.context + self._output(added))

    def _projected(self, average: Float[Tensor, "B N D"]) -> Float[Tensor, "B H N d"]:
        """`V f`, without the bias of V, which the attention has added."""
        weight: Tensor = self.attention.value.weight  # type: ignore[assignment]
        return split_heads(functional.linear(average, weight), self.attention.heads)

    def _at(self, position: Int[Tensor, "B H T"], memory: Guided) -> Float[Tensor, "B H T d"]:
        """`V f_g` for heads that stand at `position` and have read what they look ahead to."""
        ahead = position + self.attention.span.ahead
        read = ahead.minimum(memory.memory.length[:, None, None])
        place = (read - 1).clamp(min=0)[..., None].expand(*read.shape, memory.averages.shape[-1])
        return memory.averages.gather(2, place) * (position > 0)[..., None]

    def _output(self, x: Float[Tensor, "B H T d"]) -> Float[Tensor, "B T D"]:
        weight: Tensor = self.attention.output.weight  # type: ignore[assignment]
        return functional.linear(join_heads(x), weight)
