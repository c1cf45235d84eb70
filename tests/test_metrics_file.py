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


DAMAGED = [
    (b"", []),
    (b"\xff\xfe\x00garbage", []),
    (b"step,loss\n0,1\n1\x00,2\n2,3\n", [0, 2]),
    (b"step,loss\n0,1\n1,\xff\n2,3,4\n-1,2\n1.5,2\n", [0]),
    (b"step,loss\n" + b"9" * 5000 + b",1\n7,nan\n", [7]),
    (b'step,loss\n0,"\n' + b"1," * 200_000 + b"\n8,1\n", [8]),
]


@pytest.mark.parametrize("content", [b"", b"0,1.5\n", b"0,1.5\n1,1.25\n"])
def test_a_file_without_a_header_is_said_and_kept(content, tmp_path, capsys):
    path = tmp_path / "metrics.csv"
    path.write_bytes(content)
    MetricsFile(tmp_path, 2).log_metrics({"loss": 1.0}, 2)
    assert f"{path} is corrupt: it has no header" in capsys.readouterr().err
    assert (tmp_path / "metrics.csv.corrupt").read_bytes() == content
    assert path.read_text().split() == ["step,loss", "2,1"]


@pytest.mark.parametrize(("content", "steps"), DAMAGED)
def test_whole_rows_of_a_damaged_file_count(content, steps, tmp_path, capsys):
    (tmp_path / "metrics.csv").write_bytes(content)
    assert [int(row["step"]) for row in read_metrics(tmp_path)] == steps
    warned = capsys.readouterr().err
    assert warned.count("\n") == bool(warned)
    assert steps != [0, 2] or "metrics.csv is corrupt: 1 of its 3 rows are left out" in warned
    MetricsFile(tmp_path, 5).log_metrics({"loss": 1.0}, 9)
    assert [int(row["step"]) for row in read_metrics(tmp_path)][-1] == 9
