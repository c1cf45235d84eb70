"""How far the run in a directory is: finished, to be resumed, or to be trained from the start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from simulmt.errors import UserError
from simulmt.options import SAME_RUN, flat_options
from simulmt.saved.checkpoint import read_checkpoint


@dataclass(frozen=True)
class State:
    """How far a run is, and what there is to say about it."""

    kind: Literal["new", "half", "finished"]
    reason: str = ""


def read_state(folder: Path, config: Mapping[str, Any]) -> State:
    """Compare what a directory holds with what is to be trained in it.

    A run is finished once it has its scores, which are the last file to be written. Its newest
    checkpoint says what it was trained with; Hydra has overwritten `.hydra/` by now.

    Args:
        folder: the run directory; there may be none yet.
        config: what is to be trained.
    """
    scored = _has_scores(folder)
    newest, problem = folder / "checkpoints" / "last.ckpt", ""
    checkpoint = None
    if newest.is_file():
        try:
            checkpoint = read_checkpoint(newest)
        except UserError as error:
            problem = str(error)
    if checkpoint is None:
        unknown = "finished before, with settings unknown: no last.ckpt tells"
        return State("finished", unknown) if scored else State("new", problem)
    if changed := differences(checkpoint["simulmt"]["config"], config):
        return State("new", f"settings changed: {', '.join(changed)}")
    return (
        State("finished") if scored else State("half", f"from update {checkpoint['global_step']}")
    )


def differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Settings that have changed, of those that change a result.

    A key that only one of them has came or went with a version of the program; what it stands for
    was not the user's choice, so it does not count.
    """
    before, after = flat_options(was), flat_options(now)
    return [
        f"{key} was {before[key]}, is {after[key]}"
        for key in before
        if key in after and before[key] != after[key] and not key.startswith(SAME_RUN)
    ]


def _has_scores(folder: Path) -> bool:
    try:
        scores = json.loads((folder / "test_scores.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(scores, dict) and (folder / "instances.log").is_file()
