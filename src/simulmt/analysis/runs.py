"""The finished runs of a folder, and their further decodings, read from their directories."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from simulmt.analysis.exported import read_exported
from simulmt.analysis.intervals import resample, sentence_counts
from simulmt.analysis.run import Run
from simulmt.decoding.instance import read_instances
from simulmt.errors import UserError
from simulmt.metrics import read_columns
from simulmt.options import flat_options
from simulmt.run_directory import (
    CONFIG,
    EVALUATED,
    EVALUATION,
    INSTANCES,
    MANIFEST,
    SCORES,
    SET_ASIDE,
    TRAINING,
    TRAITS,
    Training,
    Traits,
    has_begun,
    is_exported,
    read_json,
    read_provenance,
    read_record,
)
from simulmt.scoring.conventions import CONVENTIONS
from simulmt.scoring.scores import Decoding, Scores

_NEAR = 1e-6  # rounding: scores and log have the same text


@dataclass
class RunList:
    """The runs of a folder, and with reasons those that are not finished or damaged."""

    runs: list[Run] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    @property
    def left_out(self) -> list[str]:
        """Each run that cannot be used, with the reason."""
        return self.damaged + self.begun


def find_runs(folder: Path, decodings: bool = True, test: str | None = None) -> RunList:
    """Read all runs below a folder, sorted by mechanism, model, policy and DAL.

    Args:
        folder: Searched at any depth for directories in which a training has begun; or an exported
            model. With `test`, exported models are searched for, too.
        decodings: Whether to add the evaluations of each run's own test set with another dial or
            beam, or by a policy.
        test: The name of other text, or of a split, whose evaluations stand for the runs; None for
            each run's own test set.

    Raises:
        UserError: there is no such folder.
    """
    if not folder.is_dir():
        raise UserError(f"runs={folder}: there is no such folder; give one that holds runs")
    listed = RunList()
    for place, below, files in os.walk(folder):
        here, text = Path(place), test
        below[:] = [name for name in below if not SET_ASIDE.search(name)]
        wanted = (test is not None or here == folder) and EVALUATION in below
        exported = wanted and is_exported(here)
        if not (exported or has_begun(here) or SCORES in files):
            continue
        below[:] = [name for name in below if name != EVALUATION]
        if SCORES not in files and not exported:
            listed.begun.append(f"{here} (not finished: no {SCORES}{_reached(here)})")
            continue
        try:
            name = here.relative_to(folder).as_posix()
            if exported:
                run, text = read_exported(here, name, test)
            else:
                run = _read(here, name)
        except (UserError, ValueError, KeyError, TypeError, AttributeError) as error:
            listed.damaged.append(f"{here} (cannot be used: {str(error).splitlines()[0]})")
            continue
        own = [run] if text is None else []
        found = [*own, *_decodings(run, listed, text)] if decodings or text else own
        if not found:
            listed.begun.append(f"{here} (no evaluation of {text})")
        listed.runs += found
    listed.damaged.sort()
    listed.begun.sort()
    listed.runs.sort(key=_place)
    return listed


def _place(run: Run) -> tuple[str, str, str, float, str]:
    """Return what runs are sorted by."""
    policy = str(run.policy.get("name", ""))
    return run.mechanism, run.model, policy, run.latency("DAL"), run.folder


def comparable(listed: RunList, folder: Path) -> list[Run]:
    """Return the runs of a folder.

    Raises:
        UserError: there is none, or not all were tested on the same sentences.
    """
    if not listed.runs:
        first = f": {listed.left_out[0]}" if listed.left_out else ""
        raise UserError(
            f"there is no finished run in {folder} ({len(listed.begun)} unfinished, "
            f"{len(listed.damaged)} damaged{first}); a training ends with writing {SCORES}"
        )
    sets: dict[str, str] = {}  # by digest, since the same name may stand for different text
    for run in listed.runs:
        sets.setdefault(run.test_set, f"{run.options['data.name']} (such as {run.folder})")
    if len(sets) > 1:
        raise UserError(
            f"the runs in {folder} were tested on different data: {', '.join(sets.values())}. One "
            "picture needs one test set: point `runs` at a folder that holds runs on one of them"
        )
    return listed.runs


def read_logs(listed: RunList, convention: str, unit: str, samples: int) -> None:
    """Count all runs by a convention, and add the logs and the resampled BLEU where there are logs.

    A run is left out if the BLEU of its log differs from that of its scores.

    Args:
        listed: The runs; a run that is left out moves from `runs` to `damaged`.
        convention: A name of `CONVENTIONS`.
        unit: A unit of the convention.
        samples: The number of resamples.
    """
    kept = []
    for run in listed.runs:
        try:
            kept.append(_with_log(replace(run, convention=convention, unit=unit), samples))
        except UserError as error:
            listed.damaged.append(f"{run.path} ({error})")
    listed.runs[:] = kept


def _read(here: Path, name: str) -> Run:
    """Return a run; a damaged run raises various errors."""
    tested = read_json(here / MANIFEST)["splits"]["test"]
    run = Run(
        path=here,
        folder=name,
        home=name,
        options=flat_options(read_json(here / CONFIG)),
        scores=read_record(here / SCORES, Scores),
        test_set=str(tested["source_sha256"]) + str(tested["target_sha256"]),
        traits=read_record(here / TRAITS, Traits),
        training=read_record(here / TRAINING, Training),
        provenance=read_provenance(here),
    )
    run.row(), run.dials()  # raise an error for a missing option
    return run


def _decodings(run: Run, listed: RunList, test: str | None = None) -> Iterator[Run]:
    """Yield one evaluation of the run's test set for each decoding that differs from the run's.

    With `test` they are evaluations of that text; the one that decodes as the run did, too.
    """
    seen: list[tuple[Mapping[str, float], Mapping[str, Any]]] = [({}, {})] if test is None else []
    for place in sorted((run.path / EVALUATION).glob(f"*/{EVALUATED}")):
        try:
            scores = read_record(place, Scores)
        except UserError as error:
            listed.damaged.append(f"{place.parent} ({error})")
            continue
        decoding = scores.decoding
        turned = _turned(run, decoding, test)
        if decoding and turned is not None and (turned, decoding.policy) not in seen:
            seen.append((turned, decoding.policy))
            folder = "/".join((run.folder, EVALUATION, place.parent.name))
            tested = run.test_set if test is None else _text_of(run, decoding)
            yield replace(
                run,
                path=place.parent,
                folder=folder,
                scores=scores,
                test_set=tested,
                turned=turned,
                policy=decoding.policy,
            )


def _text_of(run: Run, decoding: Decoding) -> str:
    """Return what tells the text of a decoding from others."""
    if decoding.text is None:
        return f"{run.test_set} {decoding.split}"
    return "".join(decoding.text.sha256)


def _turned(
    run: Run, decoding: Decoding | None, test: str | None = None
) -> dict[str, float] | None:
    """Return the options in which a decoding of the run's test set differs; None for other text.

    Drafts of a policy are greedy if nothing else was asked for.
    """
    own = run.scores.decoding
    if own is None or decoding is None:
        return None
    if test is not None:
        own = replace(own, split=test, text=decoding.text)
    same = replace(
        decoding,
        beam=own.beam,
        length_penalty=own.length_penalty,
        dials=own.dials,
        policy=own.policy,
    )
    if same != own:  # another checkpoint, split or text, or a stopwatch
        return None
    dials = {**run.traits.dials, **own.dials}
    turned = {name: value for name, value in decoding.dials.items() if value != dials.get(name)}
    if decoding.policy and decoding.beam == 1:  # the usual one
        return turned
    if decoding.beam != own.beam:
        turned["beam"] = decoding.beam
    if decoding.length_penalty not in (None, own.length_penalty):
        turned["length_penalty"] = decoding.length_penalty
    return turned


def _reached(here: Path) -> str:
    """Return the last update of an unfinished training, if its metrics tell."""
    steps = read_columns(here, "step")
    return f"; update {int(max(steps)[0]) + 1}" if steps else ""


def _with_log(run: Run, samples: int) -> Run:
    path = run.path / INSTANCES
    if not path.is_file():
        return run
    log = sorted(read_instances(path), key=lambda instance: instance.index)
    if len(log) != run.scores.sentences:
        raise UserError(f"{path} has {len(log)} sentences, the scores {run.scores.sentences}")
    resampled = resample(sentence_counts(log, CONVENTIONS[run.convention]), samples)
    if abs(resampled.bleu[0] - run.bleu) >= _NEAR:
        raise UserError(
            f"BLEU is {run.bleu:.2f} in its scores and {resampled.bleu[0]:.2f} in {INSTANCES}: "
            "they are not of the same decoding"
        )
    return replace(run, log=log, resampled=resampled)
