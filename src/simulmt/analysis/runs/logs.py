"""The decoded sentences of runs and of other systems, from each `instances.log`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from simulmt.analysis.runs.found import RunList
from simulmt.analysis.runs.intervals import resample, resample_mean, sentence_counts
from simulmt.analysis.runs.run import Run
from simulmt.decoding.instance import Instance
from simulmt.errors import UserError
from simulmt.files.instances import ENDS_OF_LISTS, read_instances, read_lists
from simulmt.files.run_directory import INSTANCES, Traits
from simulmt.latency import METRICS
from simulmt.options import pick
from simulmt.scoring.conventions import CONVENTIONS, check_bleu
from simulmt.scoring.score import score
from simulmt.scoring.segments import scored_by

_NEAR = 1e-6  # rounding: scores and log have the same text


def read_logs(listed: RunList, convention: str, unit: str, metric: str, samples: int) -> None:
    """Count all runs by a convention, and add logs and resampled quality where there are logs.

    A run is left out if the BLEU or DAL of its log differs from that of its scores.

    Args:
        listed: The runs; a run that is left out moves from `runs` to `left_out`.
        convention: A name of `CONVENTIONS`.
        unit: A unit of the convention.
        metric: The quality that is resampled: `BLEU`, or a metric of another program.
        samples: The number of resamples.
    """
    counted = [replace(run, convention=convention, unit=unit, metric=metric) for run in listed.runs]
    listed.runs.clear()
    for run in counted:
        try:
            listed.runs.append(_with_log(run, samples))
        except UserError as error:
            listed.left_out.append(f"{run.path} ({error})")


def read_others(others: Mapping[str, Path], runs: Sequence[Run], samples: int) -> list[Run]:
    """Return other systems as runs without training, scored as the runs are.

    Args:
        others: The path of an `instances.log`, or of lists, by the name of the system.
        runs: The runs of the report, at least one, with their logs.
        samples: The number of resamples.

    Raises:
        UserError: a file is corrupt or has other sentences than the logs of the runs.
    """
    like = _with_sentences(runs)
    return [_read_other(name, path, like, samples) for name, path in others.items()]


def read_oracle(path: Path, runs: Sequence[Run]) -> list[Run]:
    """Return the runs with the latency of given lists as that of their oracle.

    Raises:
        UserError: as for `read_others`.
    """
    like = _with_sentences(runs)
    figures = score(_matched("oracle", path, _sentences(path, like), like))["paper", "word"]
    oracle = {"word": {name: figures[name] for name in METRICS}}
    return [replace(run, scores=replace(run.scores, oracle=oracle)) for run in runs]


def _with_sentences(runs: Sequence[Run]) -> Run:
    """Return a run with its log; UserError if none has one."""
    if found := next((run for run in runs if run.log), None):
        return found
    raise UserError(f"others and oracle need the sentences of a run, but none has {INSTANCES}")


def _sentences(path: Path, like: Run) -> list[Instance]:
    """Return the sentences of a file in their order, written as those of a run."""
    read = read_lists if path.suffix in ENDS_OF_LISTS else read_instances
    return read(path, like.scores.writing)


def _matched(name: str, path: Path, theirs: Sequence[Instance], like: Run) -> list[Instance]:
    """Return the sentences of a file with the texts of a run, which have to be the same."""
    where, remedy = f"{name}: {path}", "give a log of the same test set"
    if (own := len(theirs)) != (wanted := len(like.log)):
        raise UserError(f"{where} has {own} sentences, the test set {wanted}; {remedy}")
    log = []
    for one, ours in zip(theirs, like.log, strict=True):
        for key in ("source", "reference"):
            text, test = getattr(one, key), getattr(ours, key)
            if text.split() not in ([], test.split()):
                differ = f"the {key} is {text[:60]!r}, that of the test set {test[:60]!r}"
                raise UserError(f"{where}, index {one.index}: {differ}; {remedy}")
        known = replace(one, index=ours.index, source=ours.source, reference=ours.reference)
        if not one.source:  # a list, whose delays are not clipped yet
            known = replace(known, delays=tuple(min(d, ours.source_length) for d in one.delays))
        log.append(known)
    return log


def _read_other(name: str, path: Path, like: Run, samples: int) -> Run:
    """Return a system whose sentences are those of a run."""
    theirs = _sentences(path, like)
    log = _matched(f"others: {name}", path, theirs, like)
    written = [instance for instance in log if instance.delays]
    offline = all(min(i.delays) >= i.source_length for i in written) and len(written) > 0
    run = Run(
        path=path.parent,
        folder=name,
        home=name,
        options={"mechanism.name": name, "data.name": like.options["data.name"]},
        scores=replace(score(log), oracle=like.scores.oracle),  # of the same sentences
        test_set=like.test_set,
        traits=Traits(False, offline, {}),
        convention=like.convention,
        unit=like.unit,
        metric=like.metric,
    )
    return _logged(run, log, theirs, samples)


def _with_log(run: Run, samples: int) -> Run:
    if not (run.path / INSTANCES).is_file():
        return run
    check_bleu(run.scores.writing)
    log = sentences_of(run)
    return _logged(run, log, log, samples)


def sentences_of(run: Run) -> list[Instance]:
    """Return the decoded sentences of a run, in their order.

    Raises:
        UserError: `instances.log` is missing, corrupt or incomplete.
    """
    log = read_instances(run.path / INSTANCES, run.scores.writing)
    if len(log) != (scored := run.scores.sentences):
        where = f"{run.path}: {INSTANCES}"
        raise UserError(f"{where} has {len(log)} of {scored} sentences; decode again")
    return log


def _logged(run: Run, log: Sequence[Instance], own: Sequence[Instance], samples: int) -> Run:
    """Return a run with its log, resampled quality, and the scores by other programs.

    Args:
        run: A run without a log.
        log: The decoded sentences of the test set.
        own: The same sentences as the run's own file has them, which other programs scored.
        samples: The number of resamples.

    Raises:
        UserError: BLEU or DAL of the log differs from that of the run's scores.
    """
    convention = CONVENTIONS[run.convention]
    resampled = resample(sentence_counts(log, convention), samples)
    clipped = convention.clipped  # of a log in words, whatever the unit
    dal = run.scores["paper" if clipped else run.convention, "word"]["DAL"].value or 0.0
    for name, was, now in (
        ("BLEU", run.number("BLEU"), resampled.quality[0]),
        ("DAL", dal, resampled.dal[0]),
    ):
        if abs(was - now) >= _NEAR:
            two = f"{was:.2f} in its scores and {now:.2f} in {INSTANCES}"
            raise UserError(f"{name} is {two}: they are not from the same decoding")
    found = scored_by(run.path, own)
    run = replace(run, log=log, scored={name: each.score for name, each in found.items()})
    if run.metric == "BLEU":
        return replace(run, resampled=resampled)
    if run.metric not in found:
        return run
    quality = resample_mean(found[run.metric].segments, samples)
    return replace(run, resampled=replace(resampled, quality=quality))


def check_scored(runs: Sequence[Run], metric: str) -> None:
    """Check that a metric is known, and that each metric of another program has one signature.

    Raises:
        UserError: a metric cannot be compared.
    """
    signatures: dict[str, dict[str, str]] = {"BLEU": {}}
    for run in runs:
        for name, scored in run.scored.items():
            signatures.setdefault(name, {}).setdefault(scored.signature, run.folder)
    pick(signatures, metric, "metric", "; `simulmt score runs=DIR with=NAME` adds others")
    for name, found in signatures.items():
        if len(found) > 1:
            several = " and ".join(f"{signature} ({folder})" for signature, folder in found.items())
            raise UserError(f"{name} was scored by {several}: score all runs with the same model")
