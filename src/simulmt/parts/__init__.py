"""The parts that a configuration names: simulmt's own, and those of plugins.

A plugin keeps its parts in a variable `parts`:

    from simulmt.parts import Parts

    parts = Parts(schedules={"catch_up": CatchUp})

From then on `mechanism.schedule=catch_up` names the class. A checkpoint holds only such names.
"""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from simulmt.attention.clock import ClockRecipe
from simulmt.attention.schedule import ScheduleRecipe
from simulmt.attention.schedules import SCHEDULES
from simulmt.attention.scores import SCORES, ScoreFactory
from simulmt.attention.spans import SPANS, SpanRecipe
from simulmt.data.corpus import Corpus
from simulmt.decoding.policies import POLICIES
from simulmt.decoding.policy import Policy
from simulmt.errors import UserError
from simulmt.files.plugins import broken, called, installed, locate, version_of
from simulmt.latency import COUNTED, Metric
from simulmt.models.model import Model
from simulmt.objective import OBJECTIVES, Objective
from simulmt.objective.latency_augmented import LATENCIES
from simulmt.options import Config, flat_options, limited
from simulmt.parts.builders import CORPORA, MODELS
from simulmt.system.console import warn


@limited
@dataclass(frozen=True)
class Parts:
    """The parts that a plugin adds, by the names that a configuration uses.

    Attributes:
        schedules: Clocks and schedules, for `mechanism.schedule`.
        spans: For `mechanism.span`.
        scores: For `mechanism.score`.
        models: For `model.name`.
        corpora: Functions that return a corpus, for `data.corpus`.
        objectives: For `objective.name`.
        policies: For `policy.name`, when a trained model translates.
        latencies: Scored beside those of the papers. They are for `latency=` of a report and, in
            lower case, for `objective.latency`.

    Raises:
        ValidationError: a part is not a class of its kind.
    """

    schedules: Mapping[str, type[ClockRecipe] | type[ScheduleRecipe]] = field(default_factory=dict)
    spans: Mapping[str, type[SpanRecipe]] = field(default_factory=dict)
    scores: Mapping[str, ScoreFactory] = field(default_factory=dict)
    models: Mapping[str, type[Model]] = field(default_factory=dict)
    corpora: Mapping[str, Callable[..., Corpus]] = field(default_factory=dict)
    objectives: Mapping[str, type[Objective]] = field(default_factory=dict)
    policies: Mapping[str, type[Policy]] = field(default_factory=dict)
    latencies: Mapping[str, Metric] = field(default_factory=dict)


LOADED: dict[str, Parts] = {}
"""The parts of the plugins that are in use, by module."""


def load(modules: Sequence[str] = ()) -> None:
    """Add the parts of the installed plugins and of the named ones to the tables.

    A broken installed plugin is left out with a warning, since the user may not need it.

    Args:
        modules: the plugins that the user named; installed plugins need no name.

    Raises:
        UserError: a named plugin cannot be imported, has no parts, or uses a name that is taken.
    """
    for module in dict.fromkeys((*installed(), *modules)):
        try:
            if module not in LOADED:
                LOADED[module] = _add(module)
        except UserError as error:
            if module in modules:
                raise
            warn(f"{error}")


def needed_by(config: Config) -> dict[str, str]:
    """Return the versions of the plugins whose parts a configuration uses, by module."""
    options = flat_options(config)
    return {
        module: version_of(module)
        for module, parts in LOADED.items()
        if any(options.get(option) in own for option, _, own in _entries(parts))
    }


def check_loaded(needed: Mapping[str, str], where: object) -> None:
    """Check that the plugins of a trained model are installed or named.

    Args:
        needed: the versions of the plugins, from `needed_by` when the model was trained.
        where: the model, for the message.

    Raises:
        UserError: a plugin is missing.
    """
    load()
    if missing := [module for module in needed if module not in LOADED]:
        packages = ", ".join(f"{m} {needed[m].partition('+')[0]}".rstrip() for m in missing)
        raise UserError(
            f"{where} uses parts of {packages}; install what is missing, or give "
            f"plugins=[{','.join(missing)}] if you trust it (--plugins for SimulEval, "
            f"simulmt.parts.load({missing}) in Python)"
        )
    for module, version in needed.items():
        if (here := version_of(module)) != version:
            warn(f"{where} was trained with {module} {version}, but {here} runs now")


def _add(module: str) -> Parts:
    """Add the parts of a plugin to the tables, all or none."""
    file = locate(module)
    try:
        parts = getattr(import_module(module), "parts", None)
    except BaseException as error:  # of any kind: the code is not ours
        raise broken(module, error) from error
    if not isinstance(parts, Parts):
        raise UserError(
            f"{called(module)}: {file} has no variable `parts`; add one, such as "
            "`parts = simulmt.parts.Parts(schedules={'mine': Mine})`"
        )
    for option, table, own in _entries(parts):
        if taken := own.keys() & table.keys():
            raise UserError(
                f"{called(module)}: {option}={min(taken)} is already taken by simulmt or another "
                f"plugin; rename it in `parts` of {module}"
            )
    for _, table, own in _entries(parts):
        table.update(own)
    return parts


def _entries(parts: Parts) -> list[tuple[str, MutableMapping[str, Any], Mapping[str, Any]]]:
    """Return for each kind of part the option that names it, its table, and the entries to add."""
    trained = {name.lower(): metric.formula for name, metric in parts.latencies.items()}
    return [
        ("mechanism.schedule", SCHEDULES, parts.schedules),
        ("mechanism.span", SPANS, parts.spans),
        ("mechanism.score", SCORES, parts.scores),
        ("model.name", MODELS, parts.models),
        ("data.corpus", CORPORA, parts.corpora),
        ("objective.name", OBJECTIVES, parts.objectives),
        ("policy.name", POLICIES, parts.policies),
        ("objective.latency", LATENCIES, trained),
        ("latency", COUNTED, parts.latencies),
    ]
