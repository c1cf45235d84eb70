"""`export.py`: a trained model as a folder that can be given away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from simulmt.errors import UserError
from simulmt.options import check
from simulmt.programs.plain import plain
from simulmt.saved import checkpoint, exported


def export(cfg: DictConfig) -> None:
    """Write the folder, and say where it is.

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


def _test_scores(path: Path) -> dict[str, Any] | None:
    """What `train.py` wrote of the checkpoint that it tested, or what an exported folder has."""
    run = path.parent.parent
    if path.is_dir():
        found = path / exported.SCORES
    elif path.parent.name == "checkpoints" and checkpoint.find_checkpoint(run) == path:
        found = run / "test_scores.json"
    else:
        return None
    if not found.is_file():
        return None
    try:
        return dict(json.loads(found.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{found} cannot be read ({error}); run evaluate.py or remove it") from None
