"""Decodes and scores the documents of a split, for `evaluate.py` with `sentences=`."""

from dataclasses import replace
from pathlib import Path

from simulmt.data.resegmented import as_in, at_punctuation, resegmented
from simulmt.decoding.cuts import LINES, PUNCTUATION, STREAM, cut_of
from simulmt.decoding.stream_instance import StreamInstance
from simulmt.decoding.writing import unspaced
from simulmt.errors import UserError
from simulmt.files.instances import read_streams, write_streams
from simulmt.files.run_directory import DOCUMENT_SCORES, INSTANCES
from simulmt.models.model import Model
from simulmt.scoring.history_decoder import decode_after
from simulmt.scoring.scores import Figures
from simulmt.scoring.split_decoder import SplitDecoder
from simulmt.scoring.stream_decoder import decode_streams, joined, segments_of, source_of
from simulmt.scoring.stream_oracle import oracle_scores
from simulmt.scoring.stream_score import score_streams
from simulmt.system.console import say, watch
from simulmt.system.disk import write_json


def evaluate_documents(
    model: Model, decoder: SplitDecoder, folder: Path, sentences: str, cut: str, history: bool
) -> None:
    """Decode and score documents, and write the log and the scores into a folder.

    Args:
        model: the model.
        decoder: decodes the lines of the documents.
        folder: the folder of the evaluation.
        sentences: who ends sentences: `model`, `lines`, `punctuation` or the name of a file.
        cut: where the model ends a sentence in the source, a name of `CUTS`.
        history: True if each sentence with a given end sees those before it.

    Raises:
        UserError: the split has no documents, the folder has those of other text, the model cannot
            end sentences, or a file of sentences does not fit the text.
    """
    split, writing = decoder.split, decoder.subwords.writing
    if not split.documents:
        raise UserError(
            f"sentences={sentences} needs documents: give documents=FILE with source=FILE, or "
            "train with data.documents=true"
        )
    texts = [unspaced(source_of(split, name), writing.source) for name in split.documents]
    references = [tuple(split.targets[n] for n in places) for places in split.documents.values()]
    _check_same_text(folder, [*zip(texts, references, strict=True)])
    decoded = _decoded(model, decoder, sentences, cut, history)
    pairs = zip(decoded, references, strict=True)
    instances = [replace(instance, references=own) for instance, own in pairs]
    (folder / DOCUMENT_SCORES).unlink(missing_ok=True)
    write_streams(folder / INSTANCES, instances)  # before the scores, which may take long
    scored = [(segments_of(split, instance.source), instance) for instance in instances]
    scores = score_streams(scored, writing=writing) | oracle_scores(split)
    write_json(folder / DOCUMENT_SCORES, scores)
    print_figures(scores)
    say(f"{len(scored):,} documents; log and scores: {folder}")


def _check_same_text(folder: Path, text: list[tuple[str, tuple[str, ...]]]) -> None:
    """Reject a folder with documents of other text."""
    log = folder / INSTANCES
    if log.exists() and [(one.text, one.references) for one in read_streams(log)] != text:
        raise UserError(f"{folder} has other text: set another text=NAME, or remove it")


def _decoded(
    model: Model, decoder: SplitDecoder, sentences: str, cut: str, history: bool
) -> list[StreamInstance]:
    """Return the translated documents."""
    split = decoder.split
    if sentences == STREAM:
        chosen = cut_of(cut, model, decoder.policy)
        if decoder.search.beam > 1:
            raise UserError(
                f"beam={decoder.search.beam} with sentences={STREAM}, whose drafts are greedy: "
                "leave out beam"
            )
        return decode_streams(model, decoder, chosen)
    if sentences == PUNCTUATION:
        split = resegmented(split, at_punctuation)
    elif sentences != LINES:
        split = as_in(split, Path(sentences).expanduser(), decoder.subwords.writing.source)
    decoder = replace(decoder, split=split)
    return joined(split, decode_after(model, decoder) if history else decoder(model, watch))


def print_figures(scores: dict[str, Figures]) -> None:
    """Print each score of documents with its signature."""
    for name, figures in scores.items():
        for figure, found in figures.items():
            value = found.form(3 if "AP" in figure else 2)
            say(f"{name:<12}{figure:<14}{value:>9}  {found.signature}")
