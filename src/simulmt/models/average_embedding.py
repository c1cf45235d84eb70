"""The average embedding layer: the mean of the embeddings read, beside a causal encoder's states.

Zhang et al. (2021), "Future-Guided Incremental Transformer for Simultaneous Translation": a step
that has read g tokens attends over `z_j + f_g`, where `f_g = W A_g` and `A_g` is the mean of the
first g source embeddings. So a source state takes in later tokens, and yet no token is encoded
twice.

`f_g` is the same for all j. So `f_g` moves all energies of a query by the same number, which a
softmax does not see, and moves the average of the values by `V f_g`. It remains to compute

    context_t = sum_j beta_tj V z_j + V f_g(t)

(with schedules in expectation over g, head by head), which needs no states for each g. A schedule
decides where to stop from z_j alone, since a shift of its energies would change its decisions.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from simulmt.attention import Attended, Attention, Memory, Moment, Plan, Source, Stand, Stepped
from simulmt.attention.initial import xavier
from simulmt.attention.memory import places
from simulmt.attention.plan import MayMove
from simulmt.attention.scores.score import join_heads, split_heads
from simulmt.attention.shapes import Queries
from simulmt.attention.state import State
from simulmt.errors import UserError


class AverageEmbedding(nn.Module):
    """Computes `f_i = W A_i` of every prefix.

    Args:
        dim: width D of embeddings and states.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        (self.project,) = xavier(nn.Linear(dim, dim, bias=False))

    def forward(
        self, embedded: Float[Tensor, "B N D"], total: Float[Tensor, "B D"], count: Int[Tensor, "B"]
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B D"]]:
        """The averages after each of N more tokens, and the new total.

        Args:
            embedded: embeddings of the tokens.
            total: sum of the embeddings of the tokens before these.
            count: number of the tokens before these.
        """
        N = embedded.shape[1]
        totals = total[:, None] + embedded.to(total.dtype).cumsum(1)
        counts = count[:, None] + places(count, N)
        average = (totals / counts[..., None]).to(embedded.dtype)
        return self.project(average), totals[:, -1]


class GuidedAttention(nn.Module):
    """An attention over `z_j + f_g` instead of `z_j`, for any schedule and most spans.

    Args:
        attention: the attention over `z_j`: a softmax of energies that are linear in the states.

    Raises:
        UserError: the score is not linear in the states, or the span dampens its weights.
    """

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        if not attention.score.linear or attention.traits.dampens:
            raise UserError(
                "model.average_embedding adds the average of the embeddings read to every state, "
                "which is defined for a softmax of scores that are linear in the states; set "
                "mechanism.score=usual with a span without a Gaussian, or "
                "model.average_embedding=false"
            )
        self.attention = attention

    def memory(self, source: Source) -> Memory:
        """Keys and values of the source states, and `V f_g`, computed once for all later calls."""
        return self.attention.memory(source)._replace(averages=self._projected(source))

    def extend(self, memory: Memory, source: Source) -> Memory:
        """The memory with more source states."""
        averages = torch.cat([_averages(memory), self._projected(source)], 2)
        return self.attention.extend(memory, source)._replace(averages=averages)

    def forward(
        self, query: Queries, memory: Memory, state: State, plan: Plan | None, moment: Moment
    ) -> Attended:
        """Contexts of T target steps of training."""
        attended: Attended = self.attention(query, memory, state, plan, moment)
        if attended.stops is not None:
            added = self._at(attended.stops, memory)
        else:
            assert attended.alpha is not None, "where no stops are known"
            averages = _averages(memory)
            added = attended.alpha.to(averages.dtype) @ averages
        return attended._replace(context=attended.context + self._output(added))

    def step(self, query: Queries, memory: Memory, state: State, stand: Stand | MayMove) -> Stepped:
        """One target step with hard decisions."""
        stepped = self.attention.step(query, memory, state, stand)
        added = self._at(stepped.position[..., None], memory)
        return stepped._replace(context=stepped.context + self._output(added))

    def _projected(self, source: Source) -> Float[Tensor, "B H N d"]:
        """`V f` without the bias of V, which the attention has added already."""
        assert source.averages is not None, "the encoder of a guided model gives averages"
        weight: Tensor = self.attention.value.weight  # type: ignore[assignment]
        return split_heads(functional.linear(source.averages, weight), self.attention.heads)

    def _at(self, position: Int[Tensor, "B #H T"], memory: Memory) -> Float[Tensor, "B H T d"]:
        """`V f_g` for heads at `position`; g counts the tokens that the span looks ahead, too."""
        position = position.expand(-1, self.attention.heads, -1)
        ahead = position + self.attention.traits.ahead
        read = memory.whole(ahead.minimum(memory.length[:, None, None]))
        averages = _averages(memory)
        place = (read - 1).clamp(min=0)[..., None].expand(*read.shape, averages.shape[-1])
        return averages.gather(2, place) * (position > 0)[..., None]

    def _output(self, x: Float[Tensor, "B H T d"]) -> Float[Tensor, "B T D"]:
        weight: Tensor = self.attention.output.weight  # type: ignore[assignment]
        return functional.linear(join_heads(x), weight)


def _averages(memory: Memory) -> Float[Tensor, "B H S d"]:
    assert memory.averages is not None, "from the memory of a guided attention"
    return memory.averages
