"""Names of runs: what was chosen for a run, and no more of it than tells the runs apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from simulmt.analysis.runs import WEIGHTS, Run
from simulmt.options import SAME_RUN

_NO_DIFFERENCE = (*SAME_RUN, *WEIGHTS)  # `Run.dials` has the weights
_OF_VARIANTS = ("mechanism.", "model.", "teacher.")


def row_names(runs: Sequence[Run]) -> list[str]:
    """Return a name for each run: mechanism, model if there are several, dials, and differences."""
    names = [" ".join([v, *r.dials()]) for v, r in zip(variants(runs), runs, strict=True)]
    for name in set(names):
        places = [i for i, other in enumerate(names) if other == name]
        keys = differing([runs[i] for i in places])  # none if there is but one
        for i in places:
            names[i] = " ".join([name, *_listed(runs[i], keys)])
    times = Counter(names)
    return [f"{n} ({r.folder})" if times[n] > 1 else n for n, r in zip(names, runs, strict=True)]


def variants(runs: Sequence[Run], axis: Collection[str] = ()) -> list[str]:
    """Return a name for the line of each run in a curve.

    It is the mechanism, the model if there are several, and the options in which the run differs
    from others of this mechanism and model. Along a line only the dials change. Further decodings
    lie on the line of their run; if runs were trained with several values of a dial, the decodings
    of each run are a line of their own.

    Args:
        runs: The runs that the names tell apart.
        axis: Further options that make no difference.
    """
    several = len({run.model for run in runs}) > 1
    names = []
    for run in runs:
        kind = [run.mechanism, run.model] if several else [run.mechanism]
        alike = [o for o in runs if (o.mechanism, o.model) == (run.mechanism, run.model)]
        trained = {f"mechanism.{dial}" for other in alike for dial in other.traits.dials}
        keys = [key for key in differing(alike) if _varied(key, alike)]
        own = [k for k in keys if k.startswith(_OF_VARIANTS) and k not in {*axis, *trained}]
        dials = _listed(run, [key for key in keys if key in trained] if run.turned else [])
        decoded = [f"(trained with {' '.join(dials)})"] if dials else []
        names.append(" ".join([*kind, *_listed(run, own), *decoded]))
    return names


def differing(runs: Sequence[Run]) -> list[str]:
    """Return the options that are not the same in all runs, in their order in the configuration."""
    keys = dict.fromkeys(key for run in runs for key in run.options)
    values = {key: {str(run.options.get(key)) for run in runs} for key in keys}
    return [k for k in keys if len(values[k]) > 1 and not k.startswith(_NO_DIFFERENCE)]


def choices(run: Run) -> frozenset[tuple[str, str]]:
    """Return all options that make a difference to a model, but the weights of `Run.dials`."""
    options = run.options.items()
    return frozenset((k, str(value)) for k, value in options if not k.startswith(_NO_DIFFERENCE))


def _varied(key: str, runs: Sequence[Run]) -> bool:
    """Whether those that have the option have it differently; not for a teacher that some lack."""
    return len({str(run.options[key]) for run in runs if key in run.options}) > 1


def _listed(run: Run, keys: Sequence[str]) -> list[str]:
    return [f"{_short(key)}={_text(run.options[key])}" for key in keys if key in run.options]


def _short(key: str) -> str:
    """Return an option as it is typed, or shorter."""
    return "teacher" if key == "teacher.kind" else key.removeprefix("mechanism.")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
