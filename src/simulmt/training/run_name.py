"""Names of run directories: the user's, or those made from the overrides of the command line."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import PurePath

from simulmt.options import SAME_RUN, is_below

_LONGEST = 80
_DIGITS = 8


def run_name(overrides: Sequence[str], name: object = None) -> str:
    """Return the name of a run's folder: the given one, or one made from the overrides.

    The order of the overrides makes no difference. The name contains no `=` and no `,`, which would
    need quotes on a command line. It keeps only the last part of a path. If it is too long, it puts
    groups and weights first and keeps only the last part of each key. A name that leaves out or
    replaces anything ends in a digest of all overrides.

    >>> run_name(["mechanism=mma_il", "lambda=0.2"])
    'lambda-0.2+mechanism-mma_il'
    """
    if name is not None:
        return str(name)
    # a sweep writes booleans as Python does
    lower = (re.sub(r"=(True|False)$", lambda m: m[0].lower(), each) for each in overrides)
    kept = sorted((each.lstrip("+~") for each in lower), key=_key)
    kept = [each for each in kept if not is_below(_key(each).replace("/", "."), SAME_RUN)]
    whole, made = _joined(kept), _readable(_without_folders(kept))
    if len(made) > _LONGEST:
        nested = sorted(_without_folders(kept), key=lambda override: "." in _key(override))
        made = _readable([re.sub(r"^[^=]*\.", "", override) for override in nested])
    elif made == whole:
        return made or "default"
    digest = hashlib.sha256(whole.encode()).hexdigest()[:_DIGITS]
    return f"{made[: _LONGEST - _DIGITS - 1].rstrip('-+.')}-{digest}"


def within(folder: str, name: object) -> str:
    """Return the folder `name` within a folder; without a name, the folder itself.

    >>> within("runs/verbfinal", "first")
    'runs/verbfinal/first'
    """
    return folder if name is None else f"{folder}/{name}"


def _joined(overrides: Sequence[str]) -> str:
    return "+".join(override.replace("=", "-", 1) for override in overrides)


def _readable(overrides: Sequence[str]) -> str:
    return re.sub(r"[^\w.+-]+", "-", _joined(overrides)).strip("-")


def _without_folders(overrides: Sequence[str]) -> list[str]:
    """Return the overrides with the last part of each path; a preset keeps its folder."""
    pairs = [override.partition("=") for override in overrides]
    return [
        f"{key}{sign}{value if key == 'experiments' else PurePath(value).name or value}"
        for key, sign, value in pairs
    ]


def _key(override: str) -> str:
    return override.split("=", maxsplit=1)[0]
