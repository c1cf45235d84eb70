"""The decoded test sets of runs, and the sentences that a page shows."""

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
"""The decoded test set of each run that has a log, by folder."""
_NEAR = 1e-6  # rounding: scores and log have the same text
_MIDDLING = range(8, 13)  # source words


def read_logs(
    listed: RunList, folder: Path, convention: str, samples: int
) -> tuple[Logs, dict[str, Resampled]]:
    """Return the decoded test set and the resampled BLEU of each run that has a log, by folder.

    A run is left out if the BLEU of its log differs from that of its scores.

    Args:
        listed: The runs; a run that is left out moves from `runs` to `damaged`.
        folder: The folder that was searched for runs.
        convention: The convention of BLEU.
        samples: The number of resamples.
    """
    logs, resampled, kept = {}, {}, []
    for run in listed.runs:
        path = folder / run.folder / INSTANCES
        try:
            if path.is_file():
                log, bleu = _read(path, run, convention, samples)
                logs[run.folder], resampled[run.folder] = log, bleu
            kept.append(run)
        except UserError as error:
            listed.damaged.append(f"{folder / run.folder} ({error})")
    listed.runs[:] = kept
    return logs, resampled


def same_sentences(first: Sequence[Instance], second: Sequence[Instance]) -> bool:
    """Return whether two logs have the same sentences in the same order."""
    return [(i.source, i.reference) for i in first] == [(i.source, i.reference) for i in second]


def samples_of(logs: Logs, samples: int) -> Logs:
    """Return the same few sentences of each log, preferably neither short nor long ones."""
    first = next(iter(logs.values()), [])
    middling = [i for i, instance in enumerate(first) if instance.source_length in _MIDDLING]
    places = (middling or list(range(len(first))))[:samples]
    return {folder: [log[i] for i in places if i < len(log)] for folder, log in logs.items()}


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
