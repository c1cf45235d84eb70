"""A training step of RNMT+ against the same model with torch.nn.LSTM in place of its LSTMs.

    python benchmarks/recurrent.py [--repeats 7]

Both have the size of `conf/model/rnmt_plus_milk.yaml`, the attention of `milk`, and the same
wiring, embeddings, output and objective. They differ only in the 14 layers: torch's are not
normalised and apply tanh to the cell. In both, the decoder's first layer runs step by step with the
attention, so there torch uses its LSTMCell. Forward, backward and Adam run on one CPU thread.
"""

from __future__ import annotations

from frame import Result, alone, in_turns, one_thread, ratios, summed_up
from steps import Step, batch, model, settings, step, vocabulary
from torch import Tensor, nn

from simulmt.models.lstm import LSTM, LSTMState
from simulmt.models.rnmt_plus import RnmtPlus

TOKENS, LENGTH = 600, 20
TARGET = 2.5


class Sequence(nn.Module):
    """A layer of torch.nn.LSTM over whole sequences."""

    def __init__(self, like: LSTM) -> None:
        super().__init__()
        self.layer = nn.LSTM(like.input.in_features, like.dim, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """The states (B, N, D) of the inputs (B, N, I)."""
        states: Tensor = self.layer(x)[0]
        return states


class Cell(nn.Module):
    """torch.nn.LSTMCell with the methods that the decoder's first layer needs."""

    def __init__(self, like: LSTM) -> None:
        super().__init__()
        self.dim = like.dim
        self.cell = nn.LSTMCell(like.input.in_features, like.dim)

    def initial_state(self, like: Tensor) -> LSTMState:
        """Zeros, a row for each of `like`."""
        zeros = like.new_zeros(len(like), self.dim)
        return LSTMState(zeros, zeros)

    def step(self, x: Tensor, state: LSTMState) -> LSTMState:
        """The state after one more input."""
        return LSTMState(*self.cell(x, tuple(state)))


def of_torch(network: RnmtPlus) -> RnmtPlus:
    """The model with its layers replaced by torch's."""
    for layers in (network.encoder.forwards, network.decoder):
        for number, layer in enumerate(layers):
            assert isinstance(layer, LSTM)
            first = layers is network.decoder and number == 0
            layers[number] = Cell(layer) if first else Sequence(layer)
    return network


def contestants(
    tokens: int, length: int, size: str = "rnmt_plus_milk", device: str = "cpu"
) -> dict[str, Step]:
    """A step for each, on the same batch."""
    config = settings(size, "multi30k_deen", "milk")
    given = batch(tokens, length, vocabulary(config), device)
    ours, theirs = model(config), model(config)
    assert isinstance(theirs, RnmtPlus)
    networks = {"ours": ours, "torch": of_torch(theirs)}
    return {name: step(net.to(device), config, given) for name, net in networks.items()}


def measure(repeats: int) -> list[Result]:
    one_thread()
    times = in_turns(contestants(TOKENS, LENGTH), repeats)
    found = ratios(times["ours"], times["torch"])
    what = "RNMT+ of MILk: times as long as with torch.nn.LSTM"
    return [summed_up("training step", what, found, most=TARGET)]


if __name__ == "__main__":
    alone(measure, __doc__)
