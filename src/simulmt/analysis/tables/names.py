"""What runs and lines are called: the options that tell them apart, and no others.

A line has the mechanism, the model if there are several, each option that separates runs of this
mechanism and model if no earlier option does, and the policy that decoded. The options of
`_FIRST` come first, then the others, in the order of the configuration. The dials that trade
quality for latency, the seed, paths and the machine are in no line's name. A run has the user's own
name if there is one, its line, its dials, and the options that still tell it apart.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from simulmt.analysis.runs.run import DIGEST, Run
from simulmt.decoding.policy import common_length
from simulmt.options import SAME_RUN, is_below
from simulmt.parts.configuration import WEIGHTS

_NO_DIFFERENCE = (*SAME_RUN, *WEIGHTS, *(f"objective.{weight}" for weight in WEIGHTS))
"""Keys that are in no name; `Run.dials` has the weights."""
_ON_MACHINE = ("accelerator", "devices", "nodes", "threads", "strategy", "compile")
_MACHINE = tuple(f"trainer.{key}" for key in _ON_MACHINE)
_FIRST = ("mechanism.", "model.", "teacher.", "init_from", "trainer.")
_SAME = ("seed", *_MACHINE)
_PLACE = ("data.name", "data.root", "data.path")
"""The place of a text; the same text at several places is one text."""


def run_names(runs: Sequence[Run], lines: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a name for each run, by folder; the folder ends names that runs would share.

    Args:
        runs: The runs that the names tell apart.
        lines: The name of each run's line, by folder; None for those of `line_names`.
    """
    lines = line_names(runs) if lines is None else lines
    names = {}
    for run in runs:
        own, line = run.options.get("name"), lines[run.folder]
        dials = [dial for dial in run.dials() if dial not in line.split()]
        names[run.folder] = " ".join([*([f"{own}:"] if own else []), line, *dials])
    for name in {*names.values()}:
        alike = [run for run in runs if names[run.folder] == name]
        keys = differing(alike)  # none for a single run
        names |= {run.folder: " ".join([name, *_words(run, keys, alike)]) for run in alike}
    times = Counter(names.values())
    return {f: f"{name} ({f})" if times[name] > 1 else name for f, name in names.items()}


def line_names(
    runs: Sequence[Run],
    keys: Sequence[str] = (),
    axis: Collection[str] = (),
    show: Callable[[str], str] = str,
) -> dict[str, str]:
    """Return the name of each run's line, by folder.

    Further decodings lie on the line of their run, or on their own line if runs were trained with
    several values of a dial. So do those by a policy: `soft + wait_k`. Models that read the whole
    sentence first share no line with others.

    Args:
        runs: The runs that the names tell apart.
        keys: The options that separate lines; none for all that do.
        axis: Options that separate no lines.
        show: Returns the shown name of a mechanism or a policy.
    """
    firsts = {run.options.get(DIGEST, run.home): run.options for run in reversed(runs)}
    places = {text: {k: first.get(k) for k in _PLACE} for text, first in firsts.items()}
    placed = [{**run.options, **places[run.options.get(DIGEST, run.home)]} for run in runs]
    runs = [replace(run, options=own) for run, own in zip(runs, placed, strict=True)]
    several = len({run.model for run in runs if not run.foreign}) > 1
    kind = ["mechanism.name", "model.name"] if several else ["mechanism.name"]
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(() if keys else (run.mechanism, run.model), []).append(run)
    names = {}
    for alike in groups.values():
        options = sorted(differing(alike), key=lambda key: not key.startswith(_FIRST))
        trained = {f"mechanism.{dial}" for run in alike for dial in run.traits.dials}
        dials = [key for key in options if key in trained and not keys]
        usual = [k for k in options if k not in (*axis, *trained) and not is_below(k, _SAME)]
        own = keys or [*kind, *_separating(usual, [run.options for run in alike])]
        for run in alike:
            words = _words(run, own, alike, show)
            if run.turned and dials:
                as_trained = _words(replace(run, turned={}), dials, alike)
                words.append(f"(trained with {' '.join(as_trained)})")
            words += _policy_words(run, alike, show)
            names[run.folder] = run.mechanism if run.foreign else " ".join(words) or "other runs"
    streaming = {names[run.folder] for run in runs if not run.offline}
    offline = [run.folder for run in runs if run.offline and names[run.folder] in streaming]
    return names | {folder: f"{names[folder]}, whole sentence" for folder in offline}


def lines_along(runs: Sequence[Run], axis: Collection[str]) -> list[str]:
    """Return each run's line in a figure along some options; its dials are in the name, too."""
    lines, names = line_names(runs, axis=axis), []
    for run in runs:
        alike = [other for other in runs if lines[other.folder] == lines[run.folder]]
        dials = [d for d in changing_dials(run, alike) if d.partition("=")[0] not in axis]
        names.append(" ".join([lines[run.folder], *dials]))
    return names


def changing_dials(run: Run, runs: Sequence[Run]) -> list[str]:
    """Return the dials of a run that are not the same in all runs."""
    same = set.intersection(*({*other.dials()} for other in runs))
    return [dial for dial in run.dials() if dial not in same]


def differing(runs: Sequence[Run]) -> list[str]:
    """Return the options that are not the same in all runs, in their order in the configuration."""
    keys = dict.fromkeys(key for run in runs for key in run.options)
    values = {key: {str(run.options.get(key)) for run in runs} for key in keys}
    return [k for k in keys if len(values[k]) > 1 and not is_below(k, _NO_DIFFERENCE)]


def effective_options(run: Run) -> frozenset[tuple[str, str]]:
    """Return the options that affect the model, except the weights of `Run.dials`.

    A text is known by its digest, wherever it is.
    """
    left_out = (*_NO_DIFFERENCE, *_MACHINE, *(_PLACE if DIGEST in run.options else ()))
    options = run.options.items()
    return frozenset((k, str(value)) for k, value in options if not is_below(k, left_out))


def _separating(keys: Sequence[str], options: Sequence[Mapping[str, object]]) -> list[str]:
    """Return each key that separates options that the keys before it do not separate."""

    def parts(keys: Sequence[str]) -> int:
        return len({tuple(str(each.get(key)) for key in keys) for each in options})

    separating: list[str] = []
    for key in keys:
        if parts([*separating, key]) > parts(separating):
            separating.append(key)
    return separating


def _policy_words(run: Run, runs: Sequence[Run], show: Callable[[str], str]) -> list[str]:
    """Return the words for the policy of a decoding, without its dial, the first number."""
    if not run.policy:
        return []
    alike = [other.policy for other in runs if other.policy.get("name") == run.policy["name"]]
    keys = dict.fromkeys(chain(*alike))
    numbers = [k for k in keys if all(isinstance(each.get(k), int | float) for each in alike)]
    separating = _separating(sorted(keys, key=lambda key: key not in numbers), alike)
    dial = next((key for key in separating if key in numbers), None)
    values = {key: [each.get(key) for each in alike] for key in separating if key != dial}
    words = [f"{key}={_brief(run.policy.get(key), of)}" for key, of in values.items()]
    return ["+", show(str(run.policy["name"])), *words]


def _words(
    run: Run, keys: Sequence[str], runs: Sequence[Run], show: Callable[[str], str] = str
) -> list[str]:
    """Return `key=value` for each option that a run has; `runs` are those it is told from."""
    words = []
    for key in (key for key in keys if key in run.options):
        value = _brief(run.option(key), [other.option(key) for other in runs])
        short = re.sub(r"^(mechanism|trainer)\.|\.(name|kind)$", "", key)
        plain = {"mechanism.name": show(value), "model.name": value}
        words.append(plain.get(key, f"{short}={value}"))
    return words


def _brief(value: object, values: Sequence[object]) -> str:
    """Return a value as users type it, of paths only the folders in which they differ."""
    if not isinstance(value, str) or "/" not in value:
        return value if isinstance(value, str) else json.dumps(value)
    paths = [v.split("/") for v in values if isinstance(v, str) and "/" in v]
    start = common_length(paths)
    end = common_length([path[start:][::-1] for path in paths])
    parts = value.split("/")
    return "/".join(parts[start : len(parts) - end]) or parts[-1]
