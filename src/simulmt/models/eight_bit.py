"""A model whose weights are rounded to 8 bits, for decoding on a CPU."""

from typing import Literal, TypeAlias

from torch import Tensor, nn

from simulmt.models.embedding import TiedEmbedding
from simulmt.models.lstm import LSTM
from simulmt.ops.eight_bit import EightBit

Precision: TypeAlias = Literal["float32", "int8"]
"""How the weights of a model are kept while it decodes."""
FEWEST = 16
"""Layers with fewer outputs, such as the confidence of SM2 and HMT, keep their weights."""


def round_weights(model: nn.Module, rounded: dict[int, EightBit] | None = None) -> None:
    """Round the weights of linear layers and of the output layer, in place.

    An embedding keeps its weights, whose rows are looked up, and an LSTM those of its recurrence,
    which has a separate kernel; torch's LSTM, in `luong`, keeps all.

    Args:
        model: in evaluation mode, on a CPU.
        rounded: what was rounded before, by the address of its weights; new matrices are added.

    Raises:
        UserError: the processor has no 8-bit products.
    """

    def of(weight: Tensor) -> EightBit:
        place = weight.data_ptr()
        if place not in known:
            known[place] = EightBit.of(weight.detach())
        return known[place]

    known = {} if rounded is None else rounded
    kept = {lstm.recurrent for lstm in model.modules() if isinstance(lstm, LSTM)}
    for layer in {*model.modules()} - kept:
        if isinstance(layer, nn.Linear) and layer.out_features >= FEWEST:
            matrix = of(layer.weight)
            del layer.weight
            layer.weight = matrix  # type: ignore[assignment]  # functional.linear takes it
        elif isinstance(layer, TiedEmbedding):
            layer.output = of(layer.weight)
