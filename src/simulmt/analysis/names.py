"""What runs are called: by their choices, and by no more of them than tell them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from simulmt.analysis.runs import WEIGHTS, Run
from simulmt.options import SAME_RUN

_NO_DIFFERENCE = (*SAME_RUN, *WEIGHTS, *WEIGHTS.values())  # `Run.dials` has the weights
_OF_VARIANTS = ("mechanism.", "model.", "teacher.")


def row_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run: mechanism, model if there are several, k or lambda, and what differs."""
    names = [" ".join([v, *r.dials()]) for v, r in zip(variants(runs), runs, strict=True)]
    for name in set(names):
        places = [i for i, other in enumerate(names) if other == name]
        keys = differing([runs[i] for i in places])  # none if there is but one
        for i in places:
            names[i] = " ".join([name, *_chosen(runs[i], keys)])
    times = Counter(names)
    return [f"{n} ({r.folder})" if times[n] > 1 else n for n, r in zip(names, runs, strict=True)]


def variants(runs: Sequence[Run], axis: Collection[str] = ("mechanism.k",)) -> list[str]:
    """Mechanism and, if there are several, model of each run, and how it differs from its like.

    Args:
        runs: What is to be told apart.
        axis: Options along which a picture's line runs; they make no difference.
    """
    several = len({run.model for run in runs}) > 1
    names = []
    for run in runs:
        kind = [run.mechanism, run.model] if several else [run.mechanism]
        alike = [o for o in runs if (o.mechanism, o.model) == (run.mechanism, run.model)]
        keys = [k for k in differing(alike) if k.startswith(_OF_VARIANTS) and k not in axis]
        names.append(" ".join([*kind, *_chosen(run, [k for k in keys if _varied(k, alike)])]))
    return names


def _varied(key: str, runs: Sequence[Run]) -> bool:
    """Whether those that have the option have it differently; not for a teacher that some lack."""
    return len({str(run.options[key]) for run in runs if key in run.options}) > 1


def differing(runs: Sequence[Run]) -> list[str]:
    """Options that are not the same in all runs, in their order in the configuration."""
    keys = dict.fromkeys(key for run in runs for key in run.options)
    values = {key: {str(run.options.get(key)) for run in runs} for key in keys}
    return [k for k in keys if len(values[k]) > 1 and not k.startswith(_NO_DIFFERENCE)]


def _chosen(run: Run, keys: Sequence[str]) -> list[str]:
    return [f"{_said(k)}={_value(run.options[k])}" for k in keys if k in run.options]


def _said(key: str) -> str:
    """An option as it would be typed, or shorter."""
    return "teacher" if key == "teacher.kind" else key.removeprefix("mechanism.")


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def choices(run: Run) -> frozenset[tuple[str, str]]:
    """All that makes a difference to a model, but the weights, which `Run.dials` has."""
    options = run.options.items()
    return frozenset((k, str(value)) for k, value in options if not k.startswith(_NO_DIFFERENCE))
