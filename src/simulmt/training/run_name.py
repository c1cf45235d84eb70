"""Names of run directories: what was chosen on the command line decides them, nothing else."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from simulmt.options import SAME_RUN

_LONGEST = 160


def run_name(overrides: Sequence[str]) -> str:
    """A folder's name for a list of overrides, the same whatever their order.

    It holds neither `=` nor `,`, which would have to be quoted in later overrides that name the
    folder. Where something had to be replaced or cut, it ends in a digest of the whole.

    >>> run_name(["mechanism=mma_il", "lambda=0.2"])
    'lambda-0.2+mechanism-mma_il'
    """
    kept = [override.lstrip("+~") for override in overrides]
    kept = [override for override in kept if not _key(override).startswith(SAME_RUN)]
    # a sweep writes booleans as Python does
    kept = [re.sub(r"=(True|False)$", lambda found: found[0].lower(), one) for one in kept]
    whole = "+".join(override.replace("=", "-", 1) for override in sorted(kept, key=_key))
    name = re.sub(r"[^\w.+-]+", "-", whole).strip("-")[:_LONGEST]
    if name != whole:
        name = f"{name}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
    return name or "default"


def _key(override: str) -> str:
    return override.split("=", maxsplit=1)[0]
