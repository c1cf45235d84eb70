"""A bidirectional encoder that is run again on every prefix, against doing just that."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import zoo
from simulmt.attention import WaitK
from simulmt.errors import UserError

NEAR = {"rtol": 0, "atol": 1e-12}  # float64: rounding only
WAIT = zoo.options("wait_k") | {"k": 2}


def pair() -> tuple[Any, Any]:
    """wait-k that encodes every prefix, and an offline model with the same parameters."""
    waits = zoo.model(WAIT, kind=zoo.REENCODING)
    reads_all = zoo.model(zoo.options("soft"), encoder="bidirectional")
    parameters = waits.state_dict()
    inner = {name: name.replace("attention.attention.", "attention.") for name in parameters}
    reads_all.load_state_dict({inner[name]: value for name, value in parameters.items()})
    return waits, reads_all


@pytest.mark.parametrize("length", [1, 6, 7])
def test_each_row_is_the_prefix_alone(length: int) -> None:
    waits, reads_all = pair()
    source, mask = zoo.sentences(3, length)
    rows = waits.encode(source, mask).prefixes
    for count in range(1, length + 1):
        prefix, seen = source[:, :count], torch.ones(3, count, dtype=torch.bool)
        alone = reads_all.encode(prefix, seen).states
        torch.testing.assert_close(rows[:, count - 1, :count], alone, **NEAR)


def test_states_of_a_sentence_have_seen_no_padding() -> None:
    """They are what the pointer to boundaries learns from."""
    waits, _ = pair()
    source, mask = zoo.sentences(3, 7)
    states = waits.encode(source, mask).states
    for row, length in enumerate(mask.sum(1).tolist()):
        one = slice(row, row + 1)
        alone = waits.encode(source[one, :length], mask[one, :length]).states
        torch.testing.assert_close(states[one, :length], alone, **NEAR)


def test_with_one_layer_each_step_is_the_whole_model_on_its_prefix() -> None:
    """With more, the written words keep what they saw when they were written."""
    waits, reads_all = pair()
    waits.decoder, reads_all.decoder = waits.decoder[:1], reads_all.decoder[:1]
    source, mask = zoo.sentences(1, 6)
    target = torch.tensor([[2, 9, 5, 7, 11, 8, 6]])
    logits = waits(source, mask, target).logits
    for step in range(target.shape[1]):
        read = min(WAIT["k"] + step, 6)
        prefix = torch.ones(1, read, dtype=torch.bool)
        alone = reads_all(source[:, :read], prefix, target[:, : step + 1]).logits
        torch.testing.assert_close(logits[:, step], alone[:, -1], **NEAR)


def test_waiting_for_everything_is_the_offline_model() -> None:
    waits, reads_all = pair()
    waits.clock = WaitK(k=100)
    source, mask = zoo.sentences(4, 6)
    ours = waits(source, mask, source).logits
    torch.testing.assert_close(ours, reads_all(source, mask, source).logits, **NEAR)


def test_a_pointer_needs_states_that_do_not_change() -> None:
    with pytest.raises(UserError, match=r"boundaries=true needs states that later text"):
        zoo.model(WAIT, kind=zoo.REENCODING, boundaries=True)


@pytest.mark.parametrize("name", ["soft", "mma_il", "luong_local_m"])
def test_what_is_not_wait_k_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"reencoding.*wait_k"):
        zoo.model(zoo.options(name), encoder="reencoding")
