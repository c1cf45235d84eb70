"""A translator that reads words as they arrive and writes words once they are decided."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from simulmt.data.text import normalise
from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.by_policy import PolicyStream, begin_sentence
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import GREEDY, Search
from simulmt.decoding.writing import words_of
from simulmt.models.model import Model
from simulmt.parts.builders import pick_device
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained

LONGEST = 4096
"""The most subwords of a sentence."""


@dataclass(eq=False)
class Translator:
    """Translates one sentence after another, word by word.

    A source word costs one encoder step for each of its subwords. A bidirectional encoder runs
    once, at the end of the sentence, or with a policy again after each word; a re-encoding one runs
    on the whole prefix at each subword. Written words are final, except with a policy that revises.

    Args:
        model: in evaluation mode, on `device`.
        subwords: the model's vocabulary.
        device: the device of the model.
        policy: commits words of drafts; None for the model's own decision.
        search: how drafts are made: greedily, or with a beam.
    """

    model: Model
    subwords: Tokenizer
    device: torch.device
    policy: Policy | None = None
    search: Search = GREEDY

    def __post_init__(self) -> None:
        self.reset()

    @classmethod
    def load(
        cls,
        place: str | Path,
        device: str = "auto",
        policy: Policy | None = None,
        dials: Mapping[str, float] = {},
    ) -> "Translator":
        """Return the translator of a trained model; loading executes nothing from the file.

        Args:
            place: a run directory (its average or best checkpoint), a `.ckpt` file, or an exported
                folder.
            device: `auto`, `cpu` or `cuda`.
            policy: commits words of drafts; None for the model's own decision.
            dials: values of the mechanism's dials that differ from those of the training.

        Raises:
            UserError: there is no checkpoint or no such device, the checkpoint is corrupt, the
                policy does not fit the model, or the mechanism lacks a dial.
        """
        return cls.of(checkpoint.load(Path(place)), device, policy, dials)

    @classmethod
    def of(
        cls,
        trained: Trained,
        device: str,
        policy: Policy | None = None,
        dials: Mapping[str, float] = {},
    ) -> "Translator":
        """Return the translator of a trained model that is already loaded, otherwise as `load`."""
        where = pick_device(device, trained.precision)
        return cls(trained.build(dials, policy).to(where), trained.subwords, where, policy)

    def reset(self) -> None:
        """Begin another sentence."""
        self.stream = begin_sentence(self.model, self.policy, self.search)
        self.words_read, self.words_written = list[str](), list[str]()
        self._subwords_read = 0
        self._opening = self.model.vocabulary.opening

    def read(self, text: str | None) -> list[str]:
        """Read words, or None for the end of the sentence; return the words that are now decided.

        A word is decided once it is known to be complete: with the first subword of the next word,
        or with the end of the translation. So it may appear later than its delay says: the number
        of words that had been read when its last subword was written.
        """
        for part in self.arriving(text):
            self.stream.read_word(part)
        return self.decided()

    def arriving(self, text: str | None) -> list[list[int]]:
        """What the stream reads next: the subwords of each word; EOS for None."""
        parts = list[list[int]]()
        for word in words_of(normalise(text or ""), self.subwords.writing.source):
            self.words_read.append(word)
            tokens = self.subwords.encode(word)[: LONGEST - self._subwords_read]
            parts += self.subwords.vocabulary.words(tokens)  # one, if nothing splits it
            self._subwords_read += len(tokens)
        if text is None:
            parts.append([self.model.vocabulary.eos])
        if parts:
            parts[0], self._opening = [*self._opening, *parts[0]], ()
        return parts

    @property
    def full(self) -> bool:
        """True if the sentence is as long as it may be; further words are ignored."""
        return self._subwords_read >= LONGEST

    def finish(self) -> list[str]:
        """End the sentence; return the rest of its translation. Call `reset` before the next."""
        return self.read(None)

    @property
    def revises(self) -> bool:
        """True if what is shown may be taken back."""
        return self.policy is not None and self.policy.revises

    @property
    def shown(self) -> list[str]:
        """The words that a policy that revises shows; later ones may replace them."""
        if not isinstance(self.stream, PolicyStream):
            return []
        tokens = [token for word in self.stream.sentence.shown for token in word]
        return self.subwords.words(tokens)

    @property
    def undecided(self) -> list[str]:
        """The words that are written in part, or shown; later ones may replace them."""
        words = self.subwords.words(self.stream.written.tokens)
        return [*words[len(self.words_written) :], *self.shown]

    def decided(self) -> list[str]:
        """The words that have become complete since the last call."""
        tokens = self.stream.written.tokens
        words = self.subwords.words(tokens)
        is_open = self.stream.in_word and tokens and not self.subwords.is_blank(tokens[-1])
        is_open = is_open and not self.subwords.writing.target  # a character is complete
        complete = words[: len(words) - bool(is_open)]
        new = complete[len(self.words_written) :]
        self.words_written.extend(new)
        return new
