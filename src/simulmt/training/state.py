"""The state of the run in a directory: finished, to be resumed, or to be trained from the start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from simulmt.errors import UserError
from simulmt.options import SAME_RUN, Config, flat_options
from simulmt.run_directory import CONFIG, LAST, is_finished, read_json
from simulmt.saved.checkpoint import read_checkpoint


@dataclass(frozen=True)
class State:
    """The state of a run, and the reason."""

    kind: Literal["new", "half", "finished"]
    reason: str = ""


def read_state(folder: Path, config: Config) -> State:
    """Return the state of the run in a directory; a run with other settings counts as new.

    Args:
        folder: the run directory, which may be absent.
        config: the configuration that is to be trained.
    """
    if not (folder / CONFIG).is_file():
        return State("new")
    try:
        if changed := differences(read_json(folder / CONFIG), config):
            return State("new", f"settings changed: {', '.join(changed)}")
        if is_finished(folder):
            return State("finished")
        if not (folder / LAST).is_file():
            return State("new")
        return State("half", f"from update {read_checkpoint(folder / LAST)['global_step']}")
    except UserError as error:
        return State("new", str(error))


def differences(before: Config, after: Config) -> list[str]:
    """Return the changed settings, of those that affect training."""
    old, new = flat_options(before), flat_options(after)
    return [
        f"{key} was {old.get(key)}, is {new.get(key)}"
        for key in {**old, **new}
        if old.get(key) != new.get(key) and not key.startswith(SAME_RUN)
    ]
