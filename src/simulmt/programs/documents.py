"""Decodes and scores the documents of a split, for `evaluate.py` with `sentences=`."""

from dataclasses import dataclass
from pathlib import Path

from simulmt.data.corpus import Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.resegmented import as_in, at_punctuation, resegmented
from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.cuts import cut_of
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import Search
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

STREAM, LINES, PUNCTUATION = "model", "lines", "punctuation"
"""Who ends a sentence: the model, the lines of the split, or punctuation; else a file."""


def check_cut(cut: str, sentences: str | None) -> None:
    """Check the options `cut` and `sentences`.

    Raises:
        UserError: `cut` has no effect.
    """
    if cut != "pointer" and sentences != STREAM:
        raise UserError(
            f"cut={cut} has no effect without sentences={STREAM}: add it, or leave out cut"
        )


@dataclass(frozen=True)
class DocumentDecoding:
    """How documents are decoded.

    Args:
        sentences: who ends sentences: `model`, `lines`, `punctuation` or the name of a file.
        cut: where the model ends a sentence in the source, a name of `CUTS`.
        tokens: the most tokens in a batch of sentences.
        search: how drafts are made.
        policy: commits words of drafts; None for the model's own decision.
        history: True if each sentence with a given end sees those before it.
    """

    sentences: str
    cut: str
    tokens: int
    search: Search
    policy: Policy | None
    history: bool = False

    def evaluate(self, model: Model, split: Split, subwords: Tokenizer, folder: Path) -> None:
        """Decode, score, and write the log and the scores into a folder.

        Raises:
            UserError: the split has no documents, the folder has those of other text, the model
                cannot end sentences, or a file of sentences does not fit the text.
        """
        if not split.documents:
            raise UserError(
                f"sentences={self.sentences} needs documents: give documents=FILE with source=FILE,"
                " or train with data.documents=true"
            )
        log, writing = folder / INSTANCES, subwords.writing.source
        texts = [unspaced(source_of(split, name), writing) for name in split.documents]
        if log.exists() and [one.text for one in read_streams(log)] != texts:
            raise UserError(f"{folder} is of other text: set another text=NAME, or remove it")
        instances = self.decode(model, split, subwords)
        pairs = [(segments_of(split, instance.source), instance) for instance in instances]
        scores = score_streams(pairs, writing=subwords.writing) | oracle_scores(split)
        folder.mkdir(parents=True, exist_ok=True)
        write_streams(log, instances)
        write_json(folder / DOCUMENT_SCORES, scores)
        print_figures(scores)
        say(f"{len(pairs):,} documents; log and scores: {folder}")

    def decode(self, model: Model, split: Split, subwords: Tokenizer) -> list[StreamInstance]:
        """Return the translated documents."""
        if self.sentences == STREAM:
            chosen = cut_of(self.cut, model, self.policy)
            if self.search.beam > 1:
                raise UserError(
                    f"beam={self.search.beam} with sentences={STREAM}, whose drafts are greedy: "
                    "leave out beam"
                )
            return decode_streams(model, split, subwords, chosen, self.policy, watch)
        if self.sentences == LINES:
            cut = split
        elif self.sentences == PUNCTUATION:
            cut = resegmented(split, at_punctuation)
        else:
            cut = as_in(split, Path(self.sentences), subwords.writing.source)
        if self.history:
            how = (self.search, self.policy)
            return joined(cut, decode_after(model, cut, subwords, *how, watch=watch))
        encoded = EncodedSplit.encode(cut, subwords)
        decoder = SplitDecoder(cut, encoded, subwords, self.tokens, self.search, self.policy)
        return joined(cut, decoder(model, watch))


def print_figures(scores: dict[str, Figures]) -> None:
    """Print each score of documents with its signature."""
    for name, figures in scores.items():
        for figure, found in figures.items():
            value = found.form(3 if "AP" in figure else 2)
            say(f"{name:<12}{figure:<14}{value:>9}  {found.signature}")
