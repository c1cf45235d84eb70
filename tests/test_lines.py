"""What a training prints where no progress bar is shown, and writes into its log."""

import logging
import re

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
