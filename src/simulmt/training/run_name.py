"""Names of run directories, made from the overrides of the command line."""

import hashlib
import re
from collections.abc import Sequence

from simulmt.options import SAME_RUN

_LONGEST = 160


def run_name(overrides: Sequence[str]) -> str:
    """Return the name of the folder for a list of overrides; their order makes no difference.

    The name contains no `=` and no `,`, which would need quotes on a command line. A name that was
    cut, or in which characters were replaced, ends in a digest of all overrides.

    >>> run_name(["mechanism=mma_il", "lambda=0.2"])
    'lambda-0.2+mechanism-mma_il'
    """
    kept = [override.lstrip("+~") for override in overrides]
    kept = [override for override in kept if not _key(override).startswith(SAME_RUN)]
    # a sweep writes booleans as Python does
    kept = [re.sub(r"=(True|False)$", lambda match: match[0].lower(), item) for item in kept]
    whole = "+".join(override.replace("=", "-", 1) for override in sorted(kept, key=_key))
    name = re.sub(r"[^\w.+-]+", "-", whole).strip("-")[:_LONGEST]
    if name != whole:
        name = f"{name}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
    return name or "default"


def _key(override: str) -> str:
    return override.split("=", maxsplit=1)[0]
