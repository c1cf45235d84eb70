"""A trained model that reads words as they arrive, and writes words once they are decided."""

from __future__ import annotations

from pathlib import Path

import torch

from simulmt.builders import pick_device
from simulmt.data.subwords import Subwords
from simulmt.data.text import normalise
from simulmt.decoding.incremental import SentenceStream
from simulmt.decoding.policies import OWN
from simulmt.decoding.policy import Policy
from simulmt.models.model import Model
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained

LONGEST = 4096
"""The most subwords of a sentence."""


class Translator:
    """Translates one sentence after another, word by word.

    A source word costs one encoder step for each of its subwords. A bidirectional encoder runs
    once, when the sentence has ended; one that re-encodes runs on the whole prefix at each subword.
    What was written is never taken back.

    Args:
        model: in evaluation mode, on `device`.
        subwords: the model's vocabulary.
        device: where the model is.
        policy: decides between reading and writing.
    """

    def __init__(
        self, model: Model, subwords: Subwords, device: torch.device, policy: Policy = OWN
    ) -> None:
        self.model = model
        self.policy = policy
        self.subwords = subwords
        self.device = device
        self.reset()

    @classmethod
    def load(cls, place: str | Path, device: str = "auto") -> Translator:
        """Return the translator of a trained model; loading executes nothing that the file holds.

        Args:
            place: a run directory, whose average or best checkpoint is taken, a `.ckpt` file, or
                an exported folder.
            device: `auto`, `cpu` or `cuda`.

        Raises:
            UserError: there is no checkpoint, it is damaged, or there is no such device.
        """
        return cls.of(checkpoint.load(Path(place)), device)

    @classmethod
    def of(cls, trained: Trained, device: str) -> Translator:
        """Return the translator of a model that has been loaded already."""
        where = pick_device(device)
        return cls(trained.build().to(where), trained.subwords, where)

    def reset(self) -> None:
        """Forget the sentence and begin another."""
        self.stream = SentenceStream(self.model, self.device, self.policy)
        self.words_read: list[str] = []
        self.words_written: list[str] = []
        self._subwords_read = 0

    def read(self, text: str) -> list[str]:
        """Read a word, or several; return the words that are now decided.

        A word is decided once it is known to be complete: with the first subword of the next word,
        or with the end of the translation.
        """
        for word in normalise(text).split():
            self.words_read.append(word)
            for token in self.subwords.encode(word)[: LONGEST - self._subwords_read]:
                self.stream.read(token)
                self._subwords_read += 1
        return self._decided()

    @property
    def full(self) -> bool:
        """Whether the sentence is as long as it may be; further words are ignored."""
        return self._subwords_read >= LONGEST

    def finish(self) -> list[str]:
        """End the sentence; return the rest of its translation."""
        self.stream.read(self.model.vocabulary.eos)
        return self._decided()

    def _decided(self) -> list[str]:
        tokens = self.stream.written.tokens
        words = self.subwords.decode(tokens).split()
        is_open = bool(tokens) and not self.stream.done and not self.subwords.is_blank(tokens[-1])
        complete = words[: len(words) - is_open]
        new = complete[len(self.words_written) :]
        self.words_written.extend(new)
        return new
