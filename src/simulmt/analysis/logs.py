"""The decoded test sets of runs, and which of their sentences a page shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from simulmt.analysis.intervals import Resampled, resample
from simulmt.analysis.runs import Run, RunList
from simulmt.decoding.instance import Instance, read_instances
from simulmt.errors import UserError
from simulmt.run_directory import INSTANCES
from simulmt.scoring.conventions import CONVENTIONS

Logs = Mapping[str, Sequence[Instance]]
"""By folder; a run without a log is not there."""
_NEAR = 1e-6  # rounding: the scores were counted from the same text
_MIDDLING = range(8, 13)  # source words of a sentence that is worth looking at


def read_logs(
    listed: RunList, folder: Path, convention: str, samples: int
) -> tuple[dict[str, list[Instance]], dict[str, Resampled]]:
    """Return the decoded test set and the resampled BLEU of each run that has a log, by folder.

    A run whose log has another BLEU than its scores is left out: one of the two files is not its
    own.

    Args:
        listed: a run that is left out moves from its runs to `damaged`.
        folder: the folder that was searched.
        convention: the convention that counts BLEU.
        samples: how often to draw.
    """
    logs, resampled, kept = {}, {}, []
    for run in listed.runs:
        path = folder / run.folder / INSTANCES
        try:
            if path.is_file():
                log, figure = _read(path, run, convention, samples)
                logs[run.folder], resampled[run.folder] = log, figure
            kept.append(run)
        except UserError as error:
            listed.damaged.append(f"{folder / run.folder} ({error})")
    listed.runs[:] = kept
    return logs, resampled


def same_sentences(one: Sequence[Instance], other: Sequence[Instance]) -> bool:
    """Return whether two logs are of the same sentences, in the same order."""
    return [(i.source, i.reference) for i in one] == [(i.source, i.reference) for i in other]


def sample_places(logs: Logs, samples: int) -> list[int]:
    """Return which sentences to show of all runs: the first that are neither short nor long."""
    first = next(iter(logs.values()), [])
    middling = [i for i, instance in enumerate(first) if instance.source_length in _MIDDLING]
    return (middling or list(range(len(first))))[:samples]


def _read(path: Path, run: Run, convention: str, samples: int) -> tuple[list[Instance], Resampled]:
    log = sorted(read_instances(path), key=lambda instance: instance.index)
    if len(log) != run.scores.sentences:
        raise UserError(f"{path} has {len(log)} sentences, the scores {run.scores.sentences}")
    texts = [i.prediction for i in log], [i.reference for i in log]
    figure, scored = resample(*texts, samples, CONVENTIONS[convention].bleu), run.bleu(convention)
    if abs(figure.bleu - scored) >= _NEAR:
        raise UserError(
            f"BLEU is {scored:.2f} in its scores and {figure.bleu:.2f} in {INSTANCES}: they are "
            "not of the same decoding"
        )
    return log, figure
