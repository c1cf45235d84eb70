"""Names of runs: the options that tell the runs apart, and no others."""

from collections import Counter
from collections.abc import Collection, Sequence

from simulmt.analysis.run import WEIGHTS, Run
from simulmt.options import SAME_RUN

_NO_DIFFERENCE = (*SAME_RUN, *WEIGHTS)  # `Run.dials` has the weights
_OF_VARIANTS = ("mechanism.", "model.", "teacher.")


def row_names(runs: Sequence[Run]) -> dict[str, str]:
    """Return a name for each run, by folder.

    The name has the user's own name if there is one, the mechanism, the model if there are several,
    the dials, and the options that differ from those of another run with that name. The last resort
    is the folder.
    """
    lines = variants(runs)
    names = {run.folder: " ".join([*_own(run), lines[run.folder], *run.dials()]) for run in runs}
    for name in set(names.values()):
        alike = [run for run in runs if names[run.folder] == name]
        keys = differing(alike)  # none for a single run
        names |= {run.folder: " ".join([name, *_listed(run, keys)]) for run in alike}
    times = Counter(names.values())
    return {f: f"{name} ({f})" if times[name] > 1 else name for f, name in names.items()}


def variants(runs: Sequence[Run], axis: Collection[str] = ()) -> dict[str, str]:
    """Return the name of each run's line in a curve, by folder.

    The name has the mechanism, the model if there are several, and the options in which the run
    differs from others of this mechanism and model. Along a line only the dials change. Further
    decodings lie on the line of their run. If runs were trained with several values of a dial, the
    decodings of each run are a line of their own. So are those by a policy: `soft + wait_k`.

    Args:
        runs: The runs that the names tell apart.
        axis: Options that the names leave out.
    """
    several = len({run.model for run in runs}) > 1
    names = {}
    for run in runs:
        kind = [run.mechanism, run.model] if several else [run.mechanism]
        alike = [r for r in runs if (r.mechanism, r.model) == (run.mechanism, run.model)]
        trained = {f"mechanism.{dial}" for r in alike for dial in r.traits.dials}
        keys = [key for key in differing(alike) if _varied(key, alike)]
        own = [k for k in keys if k.startswith(_OF_VARIANTS) and k not in {*axis, *trained}]
        dials = _listed(run, [key for key in keys if key in trained] if run.turned else [])
        decoded = [f"(trained with {' '.join(dials)})"] if dials else []
        policy = ["+", str(run.policy["name"])] if run.policy else []
        names[run.folder] = " ".join([*kind, *_listed(run, own), *decoded, *policy])
    return names


def line_names(runs: Sequence[Run], axis: Sequence[str]) -> list[str]:
    """Return a name for each run; runs that differ in the options of an axis alone share a name.

    The name is that in the quality-latency curve, with k and weights where these differ, too.
    """
    lines = variants(runs, ("mechanism.k", *axis))
    names = [lines[run.folder] for run in runs]
    dials = [" ".join(d for d in run.dials() if d.split("=")[0] not in axis) for run in runs]
    times = Counter(name for name, _ in {*zip(names, dials, strict=True)})
    return [f"{n} {d}".strip() if times[n] > 1 else n for n, d in zip(names, dials, strict=True)]


def differing(runs: Sequence[Run]) -> list[str]:
    """Return the options that are not the same in all runs, in their order in the configuration."""
    keys = dict.fromkeys(key for run in runs for key in run.options)
    values = {key: {str(run.options.get(key)) for run in runs} for key in keys}
    return [k for k in keys if len(values[k]) > 1 and not k.startswith(_NO_DIFFERENCE)]


def effective_options(run: Run) -> frozenset[tuple[str, str]]:
    """Return the options that affect the model, except the weights of `Run.dials`."""
    options = run.options.items()
    return frozenset((k, str(value)) for k, value in options if not k.startswith(_NO_DIFFERENCE))


def _own(run: Run) -> list[str]:
    """Return the name that the user gave a run or its sweep, if any."""
    name = run.options.get("name")
    return [] if name is None else [f"{name}:"]


def _varied(key: str, runs: Sequence[Run]) -> bool:
    """Return whether the runs that have an option have several values; some may lack a teacher."""
    return len({str(run.options[key]) for run in runs if key in run.options}) > 1


def _listed(run: Run, keys: Sequence[str]) -> list[str]:
    return [f"{_short(key)}={_text(run.options[key])}" for key in keys if key in run.options]


def _short(key: str) -> str:
    """Return an option as users type it, or shorter."""
    return "teacher" if key == "teacher.kind" else key.removeprefix("mechanism.")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
