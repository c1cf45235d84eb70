"""Which validated checkpoint is the best."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from simulmt.files.run_directory import BEST
from simulmt.training.callbacks import selection
from small_runs import metrics, run

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.mark.parametrize(
    ("dal", "expected"),
    [(2.0, 20), (3.5, 20), (5.0, 20), (1.5, -1.5), (7.0, -3), (1e6, -901), (None, -901)],
)
def test_outside_the_range_of_dal_the_nearest_is_the_best(dal, expected):
    scores = {("paper", "word"): {"BLEU": 20.0, "DAL": SimpleNamespace(value=dal)}}
    assert selection(scores, (2.0, 5.0), True) == expected
    assert selection(scores, (2.0, 5.0), False) == expected - 1100
    assert selection(scores, None, True) == 20


def test_a_checkpoint_can_be_the_best_once_the_weights_are_in_force(tmp_path, cache):
    """They are held for one update and grown over two, so they are not at the first validation.

    BLEU is 0 at all of them, by the learning rate; so only the weights tell the first from the
    others.
    """
    lengths = ["trainer.max_updates=6", "trainer.validate_every=2", "trainer.patience=1"]
    run(tmp_path, cache, *lengths, "lambda=0.2", "optim.lr=1e-9")
    rows = [row for row in metrics(tmp_path) if row["valid/BLEU"]]
    assert {float(row["valid/BLEU"]) for row in rows} == {0}
    assert [float(row["valid/selection"]) for row in rows] == [-1100, 0, 0], "no early end at 4"
    assert torch.load(tmp_path / BEST, weights_only=True)["global_step"] == 4


def test_validations_count_updates_whatever_the_batches_of_one(tmp_path, cache):
    options = ["trainer.max_updates=4", "trainer.validate_every=2", "trainer.accumulate=2"]
    run(tmp_path, cache, *options)
    assert [row["step"] for row in metrics(tmp_path) if row["valid/BLEU"]] == ["1", "3"]
