"""`init_from=RUN`: starts from the parameters of another run, and names those that do not match.

With `init_freeze=N` the parameters of that run are frozen for the first N updates.
"""

import re
from textwrap import shorten

from simulmt.data.manifest import Manifest, check_manifest
from simulmt.models.model import Model
from simulmt.saved.checkpoint import load_matching
from simulmt.saved.trained import Trained
from simulmt.system.console import say
from simulmt.training.freezing import NOTHING_FROZEN, Frozen


def start_from(trained: Trained, model: Model, described: Manifest, freeze: int) -> Frozen:
    """Load the parameters of another run whose name and shape match the model's.

    Args:
        trained: the other run.
        model: gets the parameters.
        described: the manifest of the data.
        freeze: the number of updates during which they are frozen.

    Returns:
        The parameters that are frozen; none if that would be all of them.
    """
    check_manifest(trained.manifest, described, [])
    found = load_matching(model, trained)
    total = len(found.loaded) + len(found.absent) + len(found.reshaped)
    say(f"{len(found.loaded)} of {total} parameter tensors start from {trained.path}")
    reasons = {"not in that run": found.absent, "of another shape in that run": found.reshaped}
    for reason, names in reasons.items():
        if names:
            in_all_layers = dict.fromkeys(re.sub(r"\b\d+\b", "*", name) for name in names)
            say(f"{reason}: {shorten(', '.join(in_all_layers), 300)}")
    if not freeze:
        return NOTHING_FROZEN
    if len(found.loaded) == total:
        say(f"init_freeze={freeze} has no effect: all parameters come from that run")
        return NOTHING_FROZEN
    return Frozen(frozenset(found.loaded), freeze)
