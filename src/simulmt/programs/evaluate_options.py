"""The options of `evaluate.py`, and what an evaluation is called."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Le

from simulmt.data.corpus import SPLITS
from simulmt.data.sacrebleu_sets import PREFIX
from simulmt.data.store import digest_of_file
from simulmt.data.writing_options import BleuTokens
from simulmt.decoding.cuts import STREAM, TOLD, check_cut
from simulmt.errors import UserError
from simulmt.files.run_directory import EVALUATION
from simulmt.models.eight_bit import Precision
from simulmt.options import FOLDER_NAME, Config, FolderName, Tokens, is_folder_name
from simulmt.parts.builders import other_policy
from simulmt.programs.plain import Dials
from simulmt.programs.texts import TextOptions
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained
from simulmt.scoring.conventions import check_bleu

_SEARCH = ("beam", "length_penalty", "word_ms", "bleu")
_OWN = (*_SEARCH, "sentences", "context", "cut", "weights")
"""The options whose names and values are in the name of an evaluation."""


@dataclass(frozen=True)
class EvaluateOptions(TextOptions):
    """The options of `conf/evaluate.yaml`, which explains each of them."""

    checkpoint: Path
    text: FolderName | None
    device: str
    weights: Precision
    batch_tokens: Tokens | None
    beam: int | None
    length_penalty: int | float | None
    dial: Dials
    policy: Config
    word_ms: Annotated[int | float, Ge(0.001), Le(1_000_000)] | None
    documents: Path | None
    unpunctuated: bool
    lowercased: bool
    bleu: BleuTokens | None
    context: Path | None
    sentences: str | None
    history: bool
    cut: Literal["pointer", "likelihood", "reading"]
    export: Literal["policy"] | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_other and (not is_folder_name(self.scored) or self.scored.lower() in SPLITS):
            raise UserError(
                f"the name of the text is {self.scored!r}, but it must be {FOLDER_NAME}, and not "
                f"one of the splits {', '.join(SPLITS)}: set text=NAME"
            )
        if self.text is not None and not self.is_other:
            raise UserError(
                f"text={self.text} has no effect on the model's own splits: leave it out, or give "
                f"source=FILE target=FILE or split={PREFIX}NAME"
            )
        if self.documents and not self.source:
            raise UserError(
                f"documents={self.documents} belongs to source=FILE and target=FILE: give these,"
                " or leave it out for the model's own data"
            )
        if self.documents and not self.sentences:
            raise UserError(
                f"documents={self.documents} has no effect without sentences: add sentences=model, "
                "or leave it out"
            )
        check_cut(self.cut, self.sentences)
        if self.history and self.sentences in (None, STREAM):
            raise UserError(
                f"history=true with sentences={self.sentences}: it needs documents with given "
                "sentence ends; set sentences=lines, or leave out history"
            )
        chosen = {name: getattr(self, name) for name in ("word_ms", "sentences", "context")}
        if len(given := {name: value for name, value in chosen.items() if value}) > 1:
            raise UserError(
                f"{' and '.join(f'{name}={value}' for name, value in given.items())}: these "
                "options exclude each other; give only one of them"
            )
        if self.export and self.sentences:
            raise UserError(
                f"export={self.export} with sentences={self.sentences}: policy.json is for text "
                "decoded line by line; leave one of them out"
            )
        searches = (self.beam or 1, self.length_penalty) != (1, None)
        if self.streams and searches and not other_policy(self.policy):
            raise UserError(
                f"beam={self.beam} and length_penalty={self.length_penalty} with word_ms="
                f"{self.word_ms}, context or history, which decode greedily: leave out beam and "
                "length_penalty"
            )

    def model(self) -> Trained:
        """Return the checkpoint, with the chosen tokeniser of BLEU.

        Raises:
            UserError: it cannot be loaded, or the tokeniser is not installed.
        """
        trained = replace(checkpoint.load(self.checkpoint), precision=self.weights)
        if self.bleu:
            writing = replace(trained.subwords.writing, bleu=self.bleu)
            trained = replace(trained, subwords=trained.subwords.written(writing))
        check_bleu(trained.subwords.writing)
        return trained

    def check_history(self, seen: int) -> None:
        """Check that the model can use `context` or `history`, if either is set.

        Args:
            seen: the most subwords of earlier sentences that the model sees.

        Raises:
            UserError: it sees none.
        """
        if (self.context or self.history) and not seen:
            given = f"context={self.context}" if self.context else "history=true"
            raise UserError(
                f"{given} with a model of data.history=0, which sees no earlier sentences: leave "
                "it out, or train with data.documents=true data.history=60"
            )

    @property
    def streams(self) -> bool:
        """True if the sentences are decoded as in a stream."""
        return bool(self.word_ms or self.context or self.history)

    @property
    def scored(self) -> str:
        """The name of the decoded sentences in folders and tables."""
        return self.name if self.text is None else self.text

    @property
    def named(self) -> str:
        """The same name, and what the source has lost."""
        return self.scored + "_unpunctuated" * self.unpunctuated + "_lowercased" * self.lowercased

    @property
    def decided_by(self) -> Config:
        """The policy and its options; a file by its name and content."""
        policy = other_policy(self.policy)
        named = {"file": _named(Path(policy["file"]))} if policy.get("name") == "from_file" else {}
        return {**policy, **named}

    @property
    def changes(self) -> Config:
        """The options in which this decoding differs from the test after training."""
        policy = {("policy" if k == "name" else k): v for k, v in self.decided_by.items()}
        own = {name: getattr(self, name) for name in _SEARCH}
        dials = {f"dial.{k}" if k in policy else k: v for k, v in self.dial.items()}
        policy = {f"policy.{k}" if k in _OWN else k: v for k, v in policy.items()}
        changed = {**policy, **dials, **own}
        if self.sentences:
            name = self.sentences if self.sentences in TOLD else _named(Path(self.sentences))
            changed["sentences"] = name + "+history" * self.history
        if self.context:
            changed["context"] = _named(self.context)
        if self.sentences == STREAM:
            changed["cut"] = self.cut
        if self.weights != "float32":
            changed["weights"] = self.weights
        return {name: value for name, value in changed.items() if value is not None}

    def folder(self, trained: Trained) -> Path:
        """Return the folder of this evaluation, in the run's directory or beside the checkpoint."""
        changes = [f"{k}{value}".replace("/", "-") for k, value in self.changes.items()]
        own = [] if trained.path.is_dir() else [trained.path.stem]  # a folder may be renamed
        return trained.home / EVALUATION / "-".join([self.named, *own, *changes])


def _named(file: Path) -> str:
    """Return a name for the content of a file: its stem, and the start of its digest."""
    return f"{file.stem}-{digest_of_file(file.expanduser())[:8]}"
