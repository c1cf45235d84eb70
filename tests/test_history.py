"""The history of a stream: teacher forcing and streaming see the same past."""

from __future__ import annotations

import pytest
import torch

import zoo
from simulmt.attention import Past
from simulmt.errors import UserError
from simulmt.models.model import Model

CLOCKS = ["soft", "wait_k", "wait_info", "multi_path"]
LENGTHS = ((5, 7), (0, 0), (9, 4))
"""Tokens of the past of each sentence, of source and target."""


def tokens(count: int, length: int, seed: int) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randint(4, zoo.VOCABULARY, (count, length), generator=rng)


def padded(rows: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, rows))
    mask = torch.tensor([[n >= longest - len(row) for n in range(longest)] for row in rows])
    return torch.stack([torch.cat([row.new_zeros(longest - len(row)), row]) for row in rows]), mask


def pasts() -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(tokens(1, s, n)[0], tokens(1, t, 9 + n)[0]) for n, (s, t) in enumerate(LENGTHS)]


def the_past(rows: list[tuple[torch.Tensor, torch.Tensor]]) -> Past:
    return Past(*padded([row[0] for row in rows]), *padded([row[1] for row in rows]))


def sentences() -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.cat([tokens(3, 6, 77), torch.full((3, 1), zoo.EOS)], 1)
    return source, torch.cat([torch.full((3, 1), zoo.BOS), tokens(3, 8, 78)], 1)


def a_model(mechanism: str) -> Model:
    return zoo.model(zoo.options(mechanism), 0, history=20, encoder="causal")


@pytest.mark.parametrize("mechanism", CLOCKS)
@torch.inference_mode()
def test_streaming_sees_what_training_sees(mechanism: str) -> None:
    """States and logits are those of a batch with padded pasts; float64 up to rounding."""
    model, (source, target) = a_model(mechanism), sentences()
    encoded = model.encode(source, torch.ones_like(source).bool(), the_past(pasts()))
    logits = model.decode(encoded, target).logits
    for row, past in enumerate(pasts()):
        own = the_past([past])
        _, state = model.encode_next(own.source, None) if len(past[0]) else (None, None)
        read, _ = model.encode_next(source[[row]], state)
        torch.testing.assert_close(read.states, encoded.states[[row]], rtol=0, atol=1e-12)
        decoder = model.start(read._replace(past=own if len(past[0]) else None))
        for place, token in enumerate(target[row]):
            step = model.step(token[None], decoder)
            torch.testing.assert_close(step.logits[0], logits[row, place], rtol=0, atol=1e-10)
            decoder = step.state


@torch.inference_mode()
def test_the_past_changes_the_translation() -> None:
    model, (source, target) = a_model("soft"), sentences()
    mask = torch.ones_like(source).bool()
    with_past = model.decode(model.encode(source, mask, the_past(pasts())), target).logits
    without = model(source, mask, target).logits
    same = (with_past - without).abs().amax((1, 2)) < 1e-10
    assert same.tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        ("soft", {"encoder": "bidirectional"}),
        ("soft", {"encoder": "by_word"}),
        ("wait_k", {"encoder": "reencoding"}),
        ("mma_il", {"average_embedding": True}),
        ("hmt", {}),
    ],
)
def test_a_model_that_sees_no_past_is_rejected(mechanism: str, options: dict[str, object]) -> None:
    with pytest.raises(UserError, match="history=5 needs model"):
        zoo.model(zoo.options(mechanism), 0, history=5, **options)
