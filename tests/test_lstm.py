"""The LSTM with normalised gates against its equations with torch's layer normalisation.

Also the encoder of RNMT+ that reads from both ends.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch.nn import functional

from simulmt.models.dropout import Dropout
from simulmt.models.lstm import LSTM, reverse
from simulmt.models.rnmt_plus import RnmtPlusEncoder
from simulmt.ops.lstm import GATES, Gates, lstm, reference

B, N, INPUTS, DIM = 3, 6, 5, 8
NEAR = {"rtol": 0, "atol": 1e-12}  # float64: rounding only


def test_every_gate_is_normalised_on_its_own():
    torch.manual_seed(0)
    layer = LSTM(INPUTS, DIM).double()
    layer.gain.data.normal_()
    layer.bias.data.normal_()
    x = torch.randn(B, INPUTS, dtype=torch.float64)
    state = layer.step(torch.randn(B, INPUTS, dtype=torch.float64), layer.initial_state(x))
    after = layer.step(x, state)
    raw = layer.input(x) + layer.recurrent(state.hidden)
    enter, keep, leave, new = (
        functional.layer_norm(part, (DIM,), layer.gain[gate], layer.bias[gate])
        for gate, part in enumerate(raw.split(DIM, -1))
    )
    cell = keep.sigmoid() * state.cell + enter.sigmoid() * new.tanh()
    torch.testing.assert_close(after.cell, cell, **NEAR)
    # no output non-linearity (Chen et al. 2018): the cell leaves as it is
    torch.testing.assert_close(after.hidden, leave.sigmoid() * cell, **NEAR)


def test_steps_equal_the_sequence():
    torch.manual_seed(0)
    layer = LSTM(INPUTS, DIM).double()
    x = torch.randn(B, N, INPUTS, dtype=torch.float64)
    state, steps = layer.initial_state(x), []
    for x_t in x.unbind(1):
        state = layer.step(x_t, state)
        steps.append(state.hidden)
    torch.testing.assert_close(torch.stack(steps, 1), layer(x), **NEAR)


def test_reversal_leaves_padding_and_undoes_itself():
    x = torch.arange(1.0, 9.0).view(2, 4, 1)
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    assert reverse(x, mask)[..., 0].tolist() == [[4, 3, 2, 1], [6, 5, 7, 8]]
    assert torch.equal(reverse(reverse(x, mask), mask), x)


class Case(NamedTuple):
    """An LSTM's arguments in the middle of a sentence."""

    driven: torch.Tensor
    hidden: torch.Tensor
    cell: torch.Tensor
    gates: Gates

    @classmethod
    def of(cls, batch: int, dim: int, dtype: torch.dtype) -> Case:
        torch.manual_seed(0)
        shapes = [(batch, N, GATES * dim), (batch, dim), (batch, dim), (GATES * dim, dim)]
        shapes += [(GATES, dim), (GATES, dim)]
        values = [torch.randn(shape, dtype=dtype) for shape in shapes]
        values[3] /= dim**0.5
        driven, hidden, cell, recurrent, gain, bias = (x.requires_grad_() for x in values)
        return cls(driven, hidden, cell, Gates(recurrent, gain, bias))

    def gradients(self) -> list[torch.Tensor | None]:
        return [leaf.grad for leaf in (*self[:3], *self.gates)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("batch", "dim"), [(1, 1), (5, 8), (300, 32)])  # 300 rows: for two threads
def test_the_compiled_steps_are_the_reference(batch, dim, dtype):
    near = 1e-12 if dtype == torch.float64 else 1e-5  # the rounding of six steps
    before = torch.get_num_threads()
    torch.set_num_threads(2 if batch == 300 else 1)
    results = []
    for function in (lstm, reference):
        case = Case.of(batch, dim, dtype)
        states, last = function(*case)
        ((states * torch.arange(N)[:, None]).sum() + last.square().sum()).backward()
        results.append([states, last, *case.gradients()])
    torch.set_num_threads(before)
    for ours, theirs in zip(*results, strict=True):
        assert ours is not None
        assert theirs is not None
        torch.testing.assert_close(ours, theirs, rtol=near, atol=near * theirs.abs().max().item())


def test_without_autograd_the_states_are_the_same_and_nan_is_not_hidden():
    """Otherwise a training that diverged would go on with gates of 0."""
    case = Case.of(3, 8, torch.float32)
    with torch.no_grad():
        spared = lstm(*case)
    assert all(map(torch.equal, spared, lstm(*case)))
    with torch.no_grad():
        case.driven[1, 2, 0] = torch.nan
        states, last = lstm(*case)
    lost = states.isnan().any(-1)
    assert lost.tolist() == [[False] * N, [False, False] + [True] * (N - 2), [False] * N]
    assert last.isnan().any(-1).tolist() == [False, True, False]


def test_each_layer_of_the_bidirectional_encoder_reads_from_both_ends():
    torch.manual_seed(0)
    encoder = RnmtPlusEncoder(DIM, 3, causal=False, dropout=Dropout(0.0)).double()
    source, lengths = torch.randn(3, 6, DIM, dtype=torch.float64), [6, 1, 4]
    states = encoder(source, torch.arange(6) < torch.tensor(lengths)[:, None])
    for row, length in enumerate(lengths):
        x = source[row, :length][None]
        layers = zip(encoder.forwards, encoder.backwards, strict=True)
        for number, (there, back) in enumerate(layers):
            y = torch.cat([there(x), back(x.flip(1)).flip(1)], -1)
            x = x + y if number == 2 else y  # residual from the third layer on
        torch.testing.assert_close(states[row, :length], encoder.project(x)[0], **NEAR)
