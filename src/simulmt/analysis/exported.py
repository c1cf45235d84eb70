"""Exported and imported models in a report: they have no training, but may have evaluations."""

from dataclasses import replace
from pathlib import Path

from simulmt.analysis.run import Run
from simulmt.builders import build_mechanism
from simulmt.configuration import Setup
from simulmt.errors import UserError
from simulmt.options import flat_options
from simulmt.run_directory import (
    CONFIG,
    EVALUATED,
    EVALUATION,
    Traits,
    read_json,
    read_provenance,
    read_record,
)
from simulmt.scoring.scores import Scores


def read_exported(folder: Path, name: str, test: str | None) -> tuple[Run, str]:
    """Return an exported model, as a run without a training, and the text that stands for its test.

    Args:
        folder: of the model.
        name: of the run.
        test: the name of a text or a split; None for the only one that was evaluated.

    Raises:
        UserError: the model was not evaluated on the text, or on several if none is named, or its
            mechanism is unknown.
    """
    config = read_json(folder / CONFIG)["config"]
    places = sorted((folder / EVALUATION).glob(f"*/{EVALUATED}"))
    scores = [read_record(place, Scores) for place in places]
    found = [(one, one.decoding) for one in scores if one.decoding]
    names = sorted({decoding.split for _, decoding in found})
    if test is None and len(names) != 1:
        raise UserError(f"evaluated on {', '.join(names) or 'nothing'}: choose with test=NAME")
    test = test or names[0]
    same = [pair for pair in found if pair[1].split == test]
    if not same:
        raise UserError(f"no evaluation of {test}, but of {', '.join(names)}")
    plainest, decoding = min(same, key=lambda pair: len({**pair[1].policy, **pair[1].dials}))
    mechanism = build_mechanism(Setup.of(config).mechanism)
    learned = mechanism.learned and "lambda" in config
    run = Run(
        path=folder,
        folder=name,
        home=name,
        options=flat_options(config),
        scores=replace(plainest, decoding=replace(decoding, policy={}, dials={})),
        test_set="",
        traits=Traits(learned, mechanism.offline, mechanism.dials),
        training=None,
        provenance=read_provenance(folder),
    )
    return run, test
