"""Other systems in a report: their `instances.log` on the test set of the runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from simulmt.analysis.runs.intervals import resample, sentence_counts
from simulmt.analysis.runs.run import Run
from simulmt.errors import UserError
from simulmt.files.instances import read_instances
from simulmt.files.run_directory import INSTANCES, Traits
from simulmt.scoring.conventions import CONVENTIONS
from simulmt.scoring.score import score


def read_others(others: Mapping[str, Path], runs: Sequence[Run], samples: int) -> list[Run]:
    """Return other systems as runs without a training, scored as the runs are.

    Args:
        others: The path of an `instances.log` by the name of the system.
        runs: The runs of the report, at least one, with their logs.
        samples: The number of resamples.

    Raises:
        UserError: there is no log of a run to compare with, or a file is corrupt or has other
            sentences.
    """
    first = next((run for run in runs if run.log), runs[0])
    if others and not first.log:
        raise UserError(f"others: no run has an {INSTANCES} to compare sentences with")
    return [_read(name, path, first, samples) for name, path in others.items()]


def _read(name: str, path: Path, like: Run, samples: int) -> Run:
    """Return a system whose sentences are those of a run."""
    theirs = sorted(read_instances(path), key=lambda instance: instance.index)
    where = f"others: {name}: {path}"
    remedy = "give a log of the same test set, a line for each sentence"
    if len(theirs) != len(like.log):
        lengths = f"{len(theirs)} sentences, the test set {len(like.log)}"
        raise UserError(f"{where} has {lengths}; {remedy}")
    log = []
    for one, ours in zip(theirs, like.log, strict=True):
        for key in ("source", "reference"):
            text, wanted = getattr(one, key), getattr(ours, key)
            if text.split() != wanted.split():
                raise UserError(
                    f"{where}, index {one.index}: the {key} is {text[:60]!r}, that of the test set "
                    f"{wanted[:60]!r}; {remedy}"
                )
        log.append(replace(one, index=ours.index, source=ours.source, reference=ours.reference))
    written = [instance for instance in log if instance.delays]
    offline = all(min(i.delays) >= i.source_length for i in written) and len(written) > 0
    return Run(
        path=path.parent,
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
