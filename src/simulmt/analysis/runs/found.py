"""The finished runs of a folder, and their further decodings, read from their directories."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from simulmt.analysis.runs.run import DIGEST, Run
from simulmt.errors import UserError
from simulmt.files import run_directory as files
from simulmt.files.metrics import read_columns
from simulmt.options import Config, flat_options
from simulmt.parts.builders import build_mechanism
from simulmt.parts.configuration import Setup
from simulmt.scoring.scores import Decoding, Scores
from simulmt.system.disk import read_json, read_record

_OF_COPY = (files.CONFIG, files.TRAINING, files.INSTANCES)


@dataclass
class RunList:
    """The runs of a folder, and those that cannot be used, each with the reason."""

    runs: list[Run] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def find_runs(folder: Path, decodings: bool = True, test: str | None = None) -> RunList:
    """Read all runs below a folder, sorted by mechanism, model, policy and DAL.

    Args:
        folder: Searched at any depth for directories in which training has begun; or an exported
            model. With `test`, exported models are searched for, too.
        decodings: True adds the evaluations of each run's own test set with another dial or beam,
            or by a policy.
        test: The name of other text, or of a split, whose evaluations stand for the runs; None for
            each run's own test set.

    Raises:
        UserError: the folder does not exist, or is an exported model whose text is not clear.
    """
    if not folder.is_dir():
        raise UserError(f"runs={folder} is not a folder: choose one that holds runs")
    listed, seen = RunList(), dict[tuple[bytes, ...], str]()
    for here in files.folders_in(folder):
        wanted = here == folder or (test is not None and (here / files.EVALUATION).is_dir())
        exported = wanted and files.is_exported(here)
        if not (exported or files.has_begun(here) or (here / files.SCORES).exists()):
            continue
        try:
            name = here.relative_to(folder).as_posix()
            run, text = _read_exported(here, name, test) if exported else (_read(here, name), test)
            if run.training and (here / files.INSTANCES).exists():
                record = tuple((here / file).read_bytes() for file in _OF_COPY)
                if (first := seen.setdefault(record, name)) != name:
                    raise UserError(f"a copy of {first}")
        except (UserError, ValueError, KeyError, TypeError) as error:
            reason = str(error).splitlines()[0]
            if exported and here == folder:
                raise UserError(f"runs={folder}: {reason}") from None
            listed.left_out.append(f"{here} ({reason})")
            continue
        found = [] if text else [run]
        found += _decodings(run, listed, text) if decodings or text else []
        own = "" if decodings or test else " without policy and dial; set decodings=true"
        if own:
            found = [one for one in found if not one.is_decoding]
        if not found:
            listed.left_out.append(f"{here} (no evaluation of {text}{own})")
        listed.runs += found
    listed.runs.sort(key=_order)
    return listed


def _order(run: Run) -> tuple[str, str, str, float, str]:
    policy, dal = str(run.policy.get("name", "")), run.value("DAL")
    return run.mechanism, run.model, policy, math.inf if dal is None else dal, run.folder


def comparable(listed: RunList, folder: Path) -> list[Run]:
    """Return the runs of a folder.

    Raises:
        UserError: there is none, or not all were tested on the same sentences with the same BLEU.
    """
    if not listed.runs:
        first = f": {listed.left_out[0]}" if listed.left_out else ""
        remedy = f"a finished run has {files.SCORES}; to report a .ckpt file alone, export it first"
        raise UserError(f"no finished run in {folder}{first}; {remedy}")
    sets: dict[str, str] = {}  # by digest, since the same name may stand for different text
    for run in listed.runs:
        about = f"{run.scores.sentences:,} sentences, SHA-256 {run.test_set[:8]}"
        sets.setdefault(run.test_set, f"{run.test_name} ({about}, such as {run.folder})")
    if len(sets) > 1:
        remedy = "choose with runs=FOLDER or `report test=NAME`, or delete the older evaluations"
        tested = f"runs={folder} were tested on different data: {'; '.join(sets.values())}"
        raise UserError(f"{tested}; {remedy} (train.py name=NAME starts a sweep in a new folder)")
    writings = {run.scores.writing: run for run in listed.runs}
    if len(writings) > 1:
        found = ", ".join(f"{run.folder} by {writing.bleu}" for writing, run in writings.items())
        raise UserError(
            f"runs={folder} have the BLEU of different tokenisers or characters ({found}): choose "
            "with runs=FOLDER, or retrain with the same data.bleu and data.characters"
        )
    return listed.runs


def _read(here: Path, name: str) -> Run:
    """Return a run; an unfinished or corrupt run raises various errors."""
    if not (here / files.SCORES).exists():
        steps = read_columns(here, "step")
        reached = f"; update {int(max(steps)[0]) + 1}" if steps else ""
        raise UserError(f"not finished: no {files.SCORES}{reached}")
    manifest = read_json(here / files.MANIFEST)
    train, splits = manifest["splits"]["train"], _splits(manifest)
    options = flat_options(read_json(here / files.CONFIG))
    run = Run(
        path=here,
        folder=name,
        home=name,
        options={**options, DIGEST: train["source_sha256"][:4] + train["target_sha256"][:4]},
        scores=read_record(here / files.SCORES, Scores),
        test_set=splits["test"],
        splits=splits,
        traits=read_record(here / files.TRAITS, files.Traits),
        training=read_record(here / files.TRAINING, files.Training),
        provenance=files.read_provenance(here),
    )
    run.row(), run.dials()  # raise an error for a missing option
    return run


def _splits(manifest: Config) -> dict[str, str]:
    """Return the SHA-256 of the sources and of the targets of each split."""
    splits = manifest["splits"].items()
    return {name: split["source_sha256"] + split["target_sha256"] for name, split in splits}


def _digest(run: Run, text: str) -> str:
    """Return the digest of the split that a text is, or else of the test set."""
    name = text.removesuffix("_lowercased").removesuffix("_unpunctuated")
    return run.splits.get(name, run.test_set)


def _read_exported(folder: Path, name: str, test: str | None) -> tuple[Run, str]:
    """Return an exported model as a run without training, and the text that it was evaluated on.

    Raises:
        UserError: the model was not evaluated on the text, or on several if none is named.
    """
    described = read_json(folder / files.CONFIG)
    if "config" not in described:
        raise UserError("in the format of transformers: `simulmt import` and evaluate it")
    config, manifest = described["config"], described["manifest"]
    places = sorted(folder.glob(f"{files.EVALUATION}/*/{files.EVALUATED}"))
    scores = [read_record(place, Scores) for place in places]
    found = [(one, one.decoding) for one in scores if one.decoding and not one.decoding.word_ms]
    texts = sorted({decoding.split for _, decoding in found})
    if not texts:
        raise UserError(f"not evaluated yet: run `simulmt evaluate checkpoint={folder}` first")
    test = test or (texts[0] if len(texts) == 1 else "test")
    if test not in texts:
        raise UserError(f"evaluated on {', '.join(texts)}: choose with `report test=NAME`")
    same = [pair for pair in found if pair[1].split == test]
    plainest, decoding = min(same, key=lambda pair: _additions(pair[1]))
    mechanism, splits = build_mechanism(Setup.of(config).mechanism), _splits(manifest)
    learned = mechanism.learned and "lambda" in config
    run = Run(
        path=folder,
        folder=name,
        home=name,
        options=flat_options(config),
        scores=replace(plainest, decoding=replace(decoding, policy={}, dials={})),
        test_set=splits.get("test", ""),
        splits=splits,
        traits=files.Traits(learned, mechanism.offline, mechanism.dials),
        provenance=files.read_provenance(folder),
    )
    return run, decoding.split


def _additions(decoding: Decoding) -> tuple[bool, bool, int]:
    """Return what a decoding adds to the model alone; the least has none of it."""
    return (
        decoding.weights != "float32",
        bool(decoding.context),
        len({**decoding.policy, **decoding.dials}),
    )


def _decodings(run: Run, listed: RunList, test: str | None = None) -> Iterator[Run]:
    """Yield one evaluation of the run's test set for each decoding that differs from the run's.

    With `test`, all evaluations of that text, including one that decodes as the run did.
    """
    seen: list[tuple[Mapping[str, float], Mapping[str, Any]]] = [({}, {})] if test is None else []
    for place in sorted(run.path.glob(f"{files.EVALUATION}/*/{files.EVALUATED}")):
        try:
            scores = read_record(place, Scores)
        except UserError as error:
            listed.left_out.append(f"{place.parent} ({error})")
            continue
        decoding, usual = scores.decoding, run.scores.decoding
        if decoding is None or usual is None:
            continue
        if (turned := _turned(run, decoding, test)) is None:
            alike = replace(decoding, weights=usual.weights, context=usual.context)
            if _turned(run, alike, test) is not None:
                listed.left_out.append(f"{place.parent} (another weights= or context=)")
            continue
        if scores.writing != run.scores.writing:
            listed.left_out.append(f"{place.parent} (another tokeniser of BLEU)")
            continue
        if run.training and not _same_weights(decoding, usual):
            listed.left_out.append(f"{place.parent} (decoded with other weights, before resuming)")
            continue
        if (turned, decoding.policy) in seen:
            continue
        seen.append((turned, decoding.policy))
        own = run.test_set if test in (None, "test") else f"{_digest(run, test)} {test}"
        yield replace(
            run,
            path=place.parent,
            folder=f"{run.folder}/{files.EVALUATION}/{place.parent.name}",
            test_set="".join(decoding.text.sha256) if decoding.text else own,
            scores=scores,
            turned=turned,
            policy=decoding.policy,
        )


def _same_weights(one: Decoding, other: Decoding | None) -> bool:
    """Return True unless two decodings are known to be by different models."""
    return other is None or None in (one.sha256, other.sha256) or one.sha256 == other.sha256


def _turned(run: Run, decoding: Decoding | None, test: str | None) -> dict[str, float] | None:
    """Return the options in which a decoding of the run's test set differs; None for other text.

    Drafts of a policy are greedy if nothing else was asked for.
    """
    own = run.scores.decoding
    if own is None or decoding is None:
        return None
    if test is not None:
        own = replace(own, split=test, text=decoding.text)
    chosen = ["beam", "length_penalty", "dials", "policy"]
    if run.training is None:  # an exported model, whose checkpoint is its folder under any name
        chosen.append("checkpoint")
    if replace(decoding, **{key: getattr(own, key) for key in chosen}) != own:
        return None  # another checkpoint, split or text, other weights, or a stopwatch
    dials = {**run.traits.dials, **own.dials}
    turned = {name: value for name, value in decoding.dials.items() if value != dials.get(name)}
    if decoding.beam != (1 if decoding.policy else own.beam):
        turned["beam"] = decoding.beam
    if decoding.length_penalty not in (None, own.length_penalty):
        turned["length_penalty"] = decoding.length_penalty
    return turned
