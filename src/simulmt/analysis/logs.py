"""The decoded test sets of runs, and what of them is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from simulmt.analysis.intervals import Resampled, resample
from simulmt.analysis.runs import Found, Run
from simulmt.decoding.instance import Instance, read_instances
from simulmt.errors import UserError
from simulmt.scoring.conventions import CONVENTIONS

Logs = Mapping[str, Sequence[Instance]]
"""By folder; runs without `instances.log` are not there."""
_NEAR = 1e-6  # rounding: the scores were counted from the same text
_MIDDLING = range(8, 13)  # source words of a sentence that is worth looking at


def read_logs(found: Found, folder: Path) -> dict[str, list[Instance]]:
    """The test set of each run as it was decoded; runs with a damaged one are left out.

    Args:
        found: what is damaged moves from its runs to `damaged`.
        folder: that was searched.
    """
    logs, kept = {}, []
    for run in found.runs:
        path = folder / run.folder / "instances.log"
        try:
            if path.is_file():
                logs[run.folder] = _read(path, run)
            kept.append(run)
        except UserError as error:
            found.damaged.append(f"{folder / run.folder} ({error})")
    found.runs[:] = kept
    return logs


def resample_logs(
    found: Found, logs: dict[str, list[Instance]], folder: Path, convention: str, samples: int
) -> dict[str, Resampled]:
    """Resampled BLEU of each run that has a log, by folder.

    A run whose log has another BLEU than its scores is left out: one of them is not its own.

    Args:
        found: what does not fit moves from its runs to `damaged`.
        logs: what `read_logs` returned; what does not fit is removed.
        folder: that was searched.
        convention: whose BLEU.
        samples: how often to draw.
    """
    resampled = {}
    for run in [run for run in found.runs if run.folder in logs]:
        log, kind = logs[run.folder], CONVENTIONS[convention].bleu
        texts = [i.prediction for i in log], [i.reference for i in log]
        figure, scored = resample(*texts, samples, kind), run.figures(convention)["BLEU"]
        if abs(figure.bleu - scored) < _NEAR:
            resampled[run.folder] = figure
            continue
        found.runs.remove(run)
        del logs[run.folder]
        found.damaged.append(
            f"{folder / run.folder} (BLEU is {scored:.2f} in test_scores.json and "
            f"{figure.bleu:.2f} in instances.log: they are not of the same decoding)"
        )
    return resampled


def same_sentences(one: Sequence[Instance], other: Sequence[Instance]) -> bool:
    """Whether two logs are of the same sentences, in the same order."""
    return [(i.source, i.reference) for i in one] == [(i.source, i.reference) for i in other]


def sample_places(logs: Logs, samples: int) -> list[int]:
    """Which sentences to show, the same of all runs: the first that are neither short nor long."""
    first = next(iter(logs.values()), [])
    middling = [i for i, one in enumerate(first) if one.source_length in _MIDDLING]
    return (middling or list(range(len(first))))[:samples]


def _read(path: Path, run: Run) -> list[Instance]:
    log = sorted(read_instances(path), key=lambda instance: instance.index)
    if not log or len(log) != run.scores.get("sentences", len(log)):
        raise UserError(f"{path} has {len(log)} sentences, the scores {run.scores['sentences']}")
    return log
