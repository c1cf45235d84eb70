"""Other systems in a report: their `instances.log` on the test set of the runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from simulmt.analysis.intervals import resample, sentence_counts
from simulmt.analysis.run import Run
from simulmt.decoding.instance import Instance, read_instances
from simulmt.errors import UserError
from simulmt.run_directory import INSTANCES, Traits
from simulmt.scoring.conventions import CONVENTIONS
from simulmt.scoring.score import score

_EXAMPLE = "write others={NAME:PATH}"
_FORM = "give an instances.log as SimulEval writes it for text"


def read_others(others: Any, runs: Sequence[Run], samples: int) -> list[Run]:
    """Return other systems as runs without a training, scored as the runs are.

    Args:
        others: The path of an `instances.log` by the name of the system.
        runs: The runs of the report, at least one, with their logs.
        samples: The number of resamples.

    Raises:
        UserError: `others` is no such mapping, there is no log of a run to compare with, or a file
            is damaged or has other sentences.
    """
    if others is None:
        return []
    if not isinstance(others, Mapping):
        raise UserError(f"others is {others!r}; {_EXAMPLE}")
    first = next((run for run in runs if run.log), None)
    if first is None:
        raise UserError(
            f"others: no run has an {INSTANCES} to compare sentences with; decode a run again with "
            "evaluate.py, or leave out others"
        )
    return [_read(str(name), path, first, samples) for name, path in others.items()]


def _read(name: str, path: Any, like: Run, samples: int) -> Run:
    """Return a system whose sentences are those of a run."""
    if not name.strip():
        raise UserError(f"others has a system without a name; {_EXAMPLE}")
    if not isinstance(path, str) or not Path(path).is_file():
        raise UserError(f"others: {name} is {path!r}, which is no file; {_EXAMPLE}")
    try:
        log = sorted(read_instances(Path(path)), key=lambda instance: instance.index)
    except UserError as error:
        why = str(error).rpartition("; decode again")[0] or str(error)
        raise UserError(f"others: {name}: {why}; {_FORM}") from None
    _check_sentences(f"others: {name}: {path}", log, like.log)
    log = [  # with the same spaces
        replace(one, index=ours.index, source=ours.source, reference=ours.reference)
        for one, ours in zip(log, like.log, strict=True)
    ]
    written = [instance for instance in log if instance.delays]
    offline = all(min(i.delays) >= i.source_length for i in written) and len(written) > 0
    return Run(
        path=Path(path).parent,
        folder=name,
        home=name,
        options={"mechanism.name": name, "data.name": like.options["data.name"]},
        scores=score(log),
        test_set=like.test_set,
        traits=Traits(False, offline, {}),
        training=None,
        convention=like.convention,
        unit=like.unit,
        log=log,
        resampled=resample(sentence_counts(log, CONVENTIONS[like.convention]), samples),
    )


def _check_sentences(where: str, log: Sequence[Instance], ours: Sequence[Instance]) -> None:
    """Refuse a log that is not of the same sentences."""
    remedy = "give a log of the same test set, a line for each sentence"
    if len(log) != len(ours):
        raise UserError(f"{where} has {len(log)} sentences, the test set {len(ours)}; {remedy}")
    for place, (one, other) in enumerate(zip(log, ours, strict=True)):
        if one.index - log[0].index != place:
            raise UserError(f"{where} has no single sentence of index {place}; {remedy}")
        for key in ("source", "reference"):
            text, wanted = getattr(one, key), getattr(other, key)
            if text.split() != wanted.split():
                raise UserError(
                    f"{where}, index {one.index}: the {key} is {text[:60]!r}, that of the test set "
                    f"{wanted[:60]!r}; {remedy}"
                )
