"""Each score against its formula, one head after the other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from simulmt.attention.scores import SCORES, NormalisedAdditive
from simulmt.attention.scores.luong import Location

B, T, S, DIM = 2, 3, 5, 12
NEAR = {"rtol": 0, "atol": 1e-12}  # float64: rounding only


def dot(score, s: Tensor, h: Tensor, part: slice, head: int) -> Tensor:
    return s[part] @ h[part]


def general(score, s: Tensor, h: Tensor, part: slice, head: int) -> Tensor:
    return s[part] @ (score.key.weight[part] @ h)


def concat(score, s: Tensor, h: Tensor, part: slice, head: int) -> Tensor:
    together = torch.cat([score.hidden.query.weight, score.hidden.key.weight], 1)  # W
    return score.v[head] @ torch.tanh(together[part] @ torch.cat([s, h]))


def additive(score, s: Tensor, h: Tensor, part: slice, head: int) -> Tensor:
    hidden, b = score.hidden, score.hidden.query.bias
    drive = hidden.query.weight @ s + hidden.key.weight @ h + b
    return score.v[head] @ torch.tanh(drive[part])


def normalised(score, s: Tensor, h: Tensor, part: slice, head: int) -> Tensor:
    v = score.v[head]
    return score.gain[head, 0] / v.square().sum().sqrt() * additive(score, s, h, part, head)


def scaled(score, s: Tensor, h: Tensor, part: slice, head: int) -> Tensor:
    query, key = score.query(s)[part], score.key(h)[part]
    return query @ key / query.numel() ** 0.5


FORMULAS = {
    "dot": dot,
    "general": general,
    "concat": concat,
    "additive": additive,
    "scaled_dot_product": scaled,
    "normalised": normalised,
}
FACTORIES = {**SCORES, "normalised": NormalisedAdditive}


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("name", FORMULAS)
def test_score_is_its_formula(name: str, heads: int) -> None:
    torch.manual_seed(0)
    score = FACTORIES[name](DIM, heads).double()
    for parameter in score.parameters():
        parameter.data.normal_()
    queries, states = torch.randn(B, T, DIM).double(), torch.randn(B, S, DIM).double()
    energies = score(queries, score.keys(states))
    assert energies.shape == (B, heads, T, S)
    for b, head, i, j in torch.cartesian_prod(*map(torch.arange, energies.shape)).tolist():
        part = slice(head * DIM // heads, (head + 1) * DIM // heads)
        expected = FORMULAS[name](score, queries[b, i], states[b, j], part, head)
        torch.testing.assert_close(energies[b, head, i, j], expected, **NEAR)


@pytest.mark.parametrize("heads", [1, 3])
def test_location_looks_at_the_place_alone(heads: int) -> None:
    torch.manual_seed(0)
    score = Location(DIM, heads).double()
    queries = torch.randn(B, T, DIM).double()
    energies = score(queries, score.keys(torch.randn(B, S, DIM).double()))
    matrix = score.places.weight.view(heads, Location.PLACES, DIM)
    expected = torch.einsum("hsd,btd->bhts", matrix[:, :S], queries)
    torch.testing.assert_close(energies, expected, **NEAR)


def test_location_gives_no_weight_to_places_it_does_not_know() -> None:
    score = Location(DIM, 1)
    longer = Location.PLACES + 4
    energies = score(torch.randn(1, 2, DIM), score.keys(torch.randn(1, longer, DIM)))
    weights = energies.softmax(-1)
    assert energies.shape[-1] == longer
    assert (weights[..., Location.PLACES :] == 0).all()
    assert weights.isfinite().all()


def test_gain_starts_at_one_over_the_root_of_the_width() -> None:
    for heads in (1, 3):
        gain = NormalisedAdditive(DIM, heads).gain
        torch.testing.assert_close(gain, torch.full((heads, 1), (heads / DIM) ** 0.5))
