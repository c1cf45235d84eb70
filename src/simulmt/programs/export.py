"""`export.py`: a trained model as a folder that can be given away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from simulmt.options import check
from simulmt.programs.plain import plain
from simulmt.run_directory import EVALUATED, SCORES, read_record, run_of, tested_checkpoint
from simulmt.saved import checkpoint, exported
from simulmt.scoring.scores import Scores


def export(cfg: DictConfig) -> None:
    """Write the folder, and print where it is.

    Raises:
        UserError: no such checkpoint, or a folder that is in use.
    """
    options = plain(cfg)
    check(options, {"checkpoint": Any, "to": Any}, "export.py")
    trained = checkpoint.load(Path(str(options["checkpoint"])))
    trained.build()  # what is given away can be loaded
    folder = Path(str(options["to"]))
    scores = _test_scores(trained.path)
    exported.write(trained, folder, scores)
    known = "" if scores else " (no test scores beside the checkpoint: the card has none)"
    print(f"{trained.path} exported to {folder}{known}")


def _test_scores(path: Path) -> Scores | None:
    """Return the scores of a run's tested checkpoint, or those of an exported folder."""
    run = None if path.is_dir() else run_of(path)
    file = path / EVALUATED if run is None else run / SCORES
    if not file.is_file() or (run is not None and tested_checkpoint(run) != path):
        return None
    return read_record(file, Scores)
