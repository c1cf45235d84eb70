"""What a training prints where no progress bar is shown, and writes into its log."""

from __future__ import annotations

import logging
import re

from simulmt.training import progress
from small_runs import run

VALIDATED = r"update {} of {}: loss \S+, dev BLEU \S+, dev DAL \S+, lambda 0\.2, \S+ tokens/s"
TESTED = [
    r"testing update \d, the best on the development set",
    r"test BLEU \d+\.\d, test DAL \d+\.\d\d words",
]


def test_a_line_for_each_validation_and_the_end(tmp_path, cache, capsys, caplog, no_pictures):
    with caplog.at_level(logging.INFO, "simulmt"):
        run(tmp_path, cache)
        run(tmp_path, cache, "ckpt_path=last", "trainer.max_updates=9")
    told = [
        VALIDATED.format(3, 6) + r", \d+ s left",
        VALIDATED.format(6, 6),
        "trained for 6 updates, as planned",
        *TESTED,
        "resumed at update 6 of 9",
        VALIDATED.format(9, 9),
        "trained for 9 updates, as planned",
        *TESTED,
    ]
    logged = [record.getMessage() for record in caplog.records if record.name == "simulmt"]
    assert len(logged) == len(told)
    assert all(map(re.fullmatch, told, logged))
    assert [line for line in capsys.readouterr().out.splitlines() if line in logged] == logged


def test_a_line_a_minute_between_validations(tmp_path, cache, capsys, monkeypatch, no_pictures):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    run(tmp_path, cache, "trainer.max_updates=3")
    said = re.findall(r"^update (\d) of 3: (loss \S+, )?(dev)?", capsys.readouterr().out, re.M)
    assert [(update, dev) for update, _, dev in said] == [
        ("1", ""),
        ("2", ""),
        ("3", ""),
        ("3", "dev"),
    ]
