"""Names of run directories: what was chosen on the command line decides them, nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SAME_RUN = ("ckpt_path", "cache", "logger", "logger.", "hydra", "trainer.progress")
"""Overrides that do not change what is trained."""


def run_name(overrides: Sequence[str]) -> str:
    """A folder's name for a list of overrides, the same whatever their order.

    It holds no `=`, which would break later overrides that name the folder.

    >>> run_name(["mechanism=mma_il", "lambda=0.2"])
    'lambda-0.2,mechanism-mma_il'
    """
    kept = [o.lstrip("+~") for o in overrides if not o.lstrip("+~").startswith(_SAME_RUN)]
    names = [re.sub(r"[^\w.,-]+", "-", override).strip("-") for override in sorted(kept, key=_key)]
    return ",".join(names)[:200] or "default"


def _key(override: str) -> str:
    return override.split("=", maxsplit=1)[0]
