"""Names of runs and of lines: the options that tell them apart, and no others."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import takewhile

from simulmt.analysis.runs.run import WEIGHTS, Run
from simulmt.options import SAME_RUN

_NO_DIFFERENCE = (*SAME_RUN, *WEIGHTS)  # `Run.dials` has the weights
_MACHINE = tuple(f"trainer.{key}" for key in ("accelerator", "devices", "nodes", "threads",
                                              "strategy", "compile"))  # fmt: skip
_SAME_LINE = ("seed", "data.name", "data.root", "data.path", *_MACHINE)
"""Prefixes of further keys that separate no lines: seeds, names, paths and machines."""
_FIRST = ("mechanism.", "model.", "teacher.", "init_from", "trainer.")
"""Prefixes of the keys that a label names first."""


def row_names(runs: Sequence[Run], lines: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a name for each run, by folder.

    The name has the user's own name if there is one, the line, the dials, and the options that
    differ from those of another run with that name. The last resort is the folder.

    Args:
        runs: The runs that the names tell apart.
        lines: The name of each run's line, by folder; None for those of `variants`.
    """
    lines = variants(runs) if lines is None else lines
    names = {run.folder: " ".join([lines[run.folder], *run.dials()]) for run in runs}
    own = {run.folder: run.options.get("name") for run in runs}
    names = {folder: f"{own[folder]}: {x}" if own[folder] else x for folder, x in names.items()}
    for name in set(names.values()):
        alike = [run for run in runs if names[run.folder] == name]
        keys = differing(alike)  # none for a single run
        names |= {run.folder: " ".join([name, *_listed(run, keys, alike)]) for run in alike}
    times = Counter(names.values())
    return {f: f"{name} ({f})" if times[name] > 1 else name for f, name in names.items()}


def variants(
    runs: Sequence[Run], axis: Collection[str] = (), show: Callable[[str], str] = str
) -> dict[str, str]:
    """Return the name of each run's line in a curve, by folder.

    The name has the mechanism, the model if there are several, and the options that tell the run
    from others of this mechanism and model. Along a line only the dials, the weights of `Run.dials`
    and the seed change. Further decodings lie on the line of their run. If runs were trained with
    several values of a dial, the decodings of each run are a line of their own. So are those by a
    policy: `soft + wait_k`.

    Args:
        runs: The runs that the names tell apart.
        axis: Options that the names leave out.
        show: Returns the shown name of a mechanism or a policy.
    """
    several = len({run.model for run in runs if not run.foreign}) > 1
    kinds: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        kinds.setdefault((run.mechanism, run.model), []).append(run)
    names = {}
    for (mechanism, model), alike in kinds.items():
        trained = {f"mechanism.{dial}" for run in alike for dial in run.traits.dials}
        keys = differing(alike)
        own = _separating([key for key in keys if key not in {*axis, *trained}], alike)
        dials = [key for key in keys if key in trained]
        for run in alike:
            kind = [mechanism if run.foreign else show(mechanism), *[model] * several]
            decoded = _listed(run, dials, alike) if run.turned else []
            words = [*kind, *_listed(run, own, alike)]
            words += [f"(trained with {' '.join(decoded)})"] if decoded else []
            names[run.folder] = " ".join([*words, *_of_policy(run, alike, show)]).strip()
    return {run.folder: names[run.folder] for run in runs}


def chosen_lines(
    runs: Sequence[Run], keys: Sequence[str], show: Callable[[str], str] = str
) -> dict[str, str]:
    """Return the name of each run's line, by folder, if these options alone separate lines.

    Decodings by policies and models that read the whole sentence first share no line with others,
    nor do other systems.
    """
    names = {}
    for run in runs:
        words = [_chosen(run, key, runs, show) for key in keys if key in run.options]
        plain = " ".join([*words, *_of_policy(run, runs, show)]) or "other runs"
        names[run.folder] = run.mechanism if run.foreign else plain
    streaming = {names[run.folder] for run in runs if not run.offline}
    for run in runs:
        if run.offline and names[run.folder] in streaming:
            names[run.folder] += ", whole sentence"
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
    left_out, options = (*_NO_DIFFERENCE, *_MACHINE), run.options.items()
    return frozenset((k, str(value)) for k, value in options if not k.startswith(left_out))


def _separating(keys: Sequence[str], runs: Sequence[Run]) -> list[str]:
    """Return the fewest of the first keys that tell apart all runs that any of the keys does."""

    def parts(of: Sequence[str]) -> int:
        return len({tuple(str(run.options.get(key)) for key in of) for run in runs})

    separating: list[str] = []
    usual = [key for key in keys if not key.startswith(_SAME_LINE)]
    known = {key: {str(run.options[key]) for run in runs if key in run.options} for key in usual}
    usual.sort(key=lambda key: (len(known[key]) == 1, not key.startswith(_FIRST)))
    for key in usual:
        if parts([*separating, key]) > parts(separating):
            separating.append(key)
    return separating


def _of_policy(run: Run, runs: Sequence[Run], show: Callable[[str], str]) -> list[str]:
    """Return the words for the policy of a decoding.

    The first of its numbers that differs between decodings is the dial, along the line. The others
    are among the words if decodings with the same value of the dial differ in them.
    """
    if not run.policy:
        return []
    alike = [r.policy for r in runs if r.policy.get("name") == run.policy["name"]]
    keys = dict.fromkeys(key for policy in alike for key in policy)
    varied = [key for key in keys if len({str(policy.get(key)) for policy in alike}) > 1]
    numbers = [key for key in varied if all(isinstance(p.get(key), int | float) for p in alike)]
    values = {tuple(policy[key] for key in numbers) for policy in alike}
    grid = len({value[:1] for value in values}) < len(values)
    dials = numbers[:1] if grid else numbers
    words = [f"{key}={_brief(run.policy.get(key), [])}" for key in varied if key not in dials]
    return ["+", show(str(run.policy["name"])), *words]


def _chosen(run: Run, key: str, runs: Sequence[Run], show: Callable[[str], str]) -> str:
    """Return the words for an option that the user chose to separate lines."""
    if key == "mechanism.name":
        return show(run.mechanism)
    value = _brief(run.option(key), [other.option(key) for other in runs])
    return value if key == "model.name" else f"{_short(key)}={value}"


def _listed(run: Run, keys: Sequence[str], runs: Sequence[Run]) -> list[str]:
    """Return `key=value` for each option that a run has; `runs` are those it is told from."""
    return [
        f"{_short(key)}={_brief(run.options[key], [other.options.get(key) for other in runs])}"
        for key in keys
        if key in run.options
    ]


def _short(key: str) -> str:
    """Return an option as users type it, or shorter."""
    short = key.removeprefix("mechanism.").removeprefix("trainer.").removesuffix(".name")
    return "teacher" if key == "teacher.kind" else short


def _brief(value: object, values: Sequence[object]) -> str:
    """Return a value as users type it, of paths only the folders in which they differ."""
    if not isinstance(value, str):
        return json.dumps(value)
    paths = [v.split("/") for v in values if isinstance(v, str) and "/" in v]
    if "/" not in value:
        return value
    start = _shared(paths)
    end = _shared([path[start:][::-1] for path in paths])
    parts = value.split("/")
    return "/".join(parts[start : len(parts) - end]) or parts[-1]


def _shared(paths: Sequence[Sequence[str]]) -> int:
    """Return with how many equal parts all paths begin."""
    parts = zip(*paths, strict=False)
    return sum(1 for _ in takewhile(lambda part: len({*part}) == 1, parts))
