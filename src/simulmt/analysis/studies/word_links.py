"""The word alignments of a test set and of what runs have written for it."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from simulmt.alignment.aligner import align_text
from simulmt.alignment.links import Links
from simulmt.alignment.prediction import project
from simulmt.analysis.studies.run_set import RunSet, gold_links
from simulmt.decoding.instance import Instance
from simulmt.errors import UserError
from simulmt.scoring.faithfulness import Strength

ALIGNER = "eflomal:grow-diag-final-and"


class WordLinks(NamedTuple):
    """Word alignments."""

    origin: str
    """`data`, `file`, `ALIGNER`, or the name of the run whose attention links words."""
    references: Sequence[Links]
    """Those of the references."""
    outputs: Sequence[Sequence[tuple[Instance, Links]]]
    """The outputs of each run, with theirs."""


def word_links(
    run_set: RunSet,
    file: Path | None,
    aligner: Path | None,
    strength: Strength = "possible",
) -> WordLinks:
    """Return the links of the references and of the outputs of several runs.

    Where links of the references are known, an output word has those of the word that it stands
    for. Otherwise, outputs and references are aligned: by eflomal together with the training text,
    or by the attention of a model.

    Args:
        run_set: The runs.
        file: A file of the references' links; None takes those of the data, or an aligner's.
        aligner: A run or a checkpoint whose attention links words; None for eflomal.
        strength: Which of the known links count; those of an aligner are all sure.

    Raises:
        UserError: links that are not of the test set, or also an aligner; or no aligner where there
            are no links.
    """
    if aligner and file:
        raise UserError(f"links={file} and aligner={aligner}: give one of them")
    split = run_set.data.splits["test"]
    decoded = [run_set.instances(run, split) for run in run_set.runs]
    gold = None if aligner else gold_links(split, file)
    if gold is not None:
        known = [one.sure if strength == "sure" else one.possible for one in gold]
        outputs = [[(i, projected(i, known)) for i in each] for each in decoded]
        return WordLinks("file" if file else "data", known, outputs)
    references = [*zip(split.sources, split.targets, strict=True)]
    written = [(i.source, i.prediction) for instances in decoded for i in instances]
    pairs = [*dict.fromkeys(references + written)]  # equal sentences share their links
    if aligner:
        links = run_set.link(aligner, pairs)
    else:
        sources, targets = zip(*pairs, strict=True)
        train = run_set.data.splits["train"]
        texts = [*sources, *train.sources], [*targets, *train.targets]
        links = align_text(*texts, wanted=len(pairs))
    of = dict(zip(pairs, links, strict=True))
    outputs = [[(i, of[i.source, i.prediction]) for i in each] for each in decoded]
    origin = aligner.resolve().name if aligner else ALIGNER
    return WordLinks(origin, [of[pair] for pair in references], outputs)


def projected(instance: Instance, references: Sequence[Links]) -> Links:
    """Return the links of an output, from those of all references."""
    written, meant = instance.prediction.split(), instance.reference.split()
    return project(written, meant, references[instance.index])
