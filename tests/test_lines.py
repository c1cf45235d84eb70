"""What a training prints where no progress bar is shown, and writes into its log."""

import logging
import re
from types import SimpleNamespace

import torch

from simulmt.training import progress
from small_runs import run


def test_a_line_for_each_validation_and_the_end(
    tmp_path, cache, capsys, caplog, no_pictures, monkeypatch
):
    figures = r"^update (\d) of \d: loss \S+,( dev BLEU)?"
    with caplog.at_level(logging.INFO, "simulmt"):
        run(tmp_path, cache)
        monkeypatch.setattr(progress, "EVERY", 0.0)  # a line a minute between validations
        run(tmp_path, cache, "ckpt_path=last", "trainer.max_updates=9")
    logged = [record.getMessage() for record in caplog.records if record.name == "simulmt"]
    assert [line for line in capsys.readouterr().out.splitlines() if line in logged] == logged
    steps = [found.groups("") for line in logged if (found := re.match(figures, line))]
    after = [("7", ""), ("8", ""), ("9", ""), ("9", " dev BLEU")]
    assert steps == [("3", " dev BLEU"), ("6", " dev BLEU"), *after]
    assert sum(line.startswith("trained for") for line in logged) == 2


def test_the_bar_shows_loss_latency_and_speed_also_after_a_validation():
    figures = {"train/loss": 2.5, "train/latency": 4.0, "train/tokens_per_s": 900.0}
    for more in ({}, {"valid/BLEU": 30.0, "valid/word/DAL": 5.0, "train/lambda": 0.2}):
        found = {name: torch.tensor(value) for name, value in {**more, **figures}.items()}
        trainer = SimpleNamespace(global_step=3, max_steps=9, progress_bar_metrics=found)
        shown = progress.TrainingBar().get_metrics(trainer, None)
        assert shown == {"update": "3/9, loss 2.500, latency 4.00, 900 tokens/s"}
