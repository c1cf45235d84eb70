"""`metrics.csv`: one row per update, whatever the order in which its figures come."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulmt.files.metrics import read_metrics
from simulmt.training.loggers import MetricsFile


def test_figures_of_an_update_share_a_row_and_new_columns_join(tmp_path: Path):
    path = tmp_path / "metrics.csv"
    log = MetricsFile(tmp_path, None)
    log.log_metrics({"loss": 3.0, "epoch": 0}, 0)
    log.log_metrics({"loss": 2.0}, 1)
    log.log_metrics({"bleu": 50.0}, 1)
    log.log_metrics({"loss": 1.0}, 2)
    assert path.read_text().split() == ["step,loss,bleu", "0,3,", "1,2,50", "2,1,"]


def test_a_resumed_run_drops_what_it_does_again(tmp_path: Path):
    path = tmp_path / "metrics.csv"
    log = MetricsFile(tmp_path, None)
    for step in range(4):
        log.log_metrics({"loss": float(step)}, step)
    again = MetricsFile(tmp_path, 2)
    again.log_metrics({"loss": 7.0}, 2)
    assert path.read_text().split() == ["step,loss", "0,0", "1,1", "2,7"]


@pytest.mark.parametrize("end", ["", "2", "2,0.5", "\0" * 4000])
def test_a_row_that_a_kill_or_a_power_cut_has_truncated_is_left_out(end, tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text(f"step,loss\n0,1\n1,\n{end}", newline="")
    assert [row["step"] for row in read_metrics(tmp_path)] == ["0", "1"]
    MetricsFile(tmp_path, 2).log_metrics({"loss": 1.0}, 2)
    assert path.read_text().split() == ["step,loss", "0,1", "1,", "2,1"]
