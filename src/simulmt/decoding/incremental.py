"""Streaming at the cost of the new tokens alone: one encoder step for each token read.

`simulmt.decoding.streaming` defines the result. Source states, keys, values and the decoder's state
are kept here; after a read only the step that waited for more of the source is repeated. A model's
`listen` may cost more: with `model.encoder=reencoding` the whole prefix is encoded again.
"""

from collections.abc import Sequence

import torch

from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.own_decision import LengthLimit
from simulmt.decoding.streaming import CPU, replay, take_step
from simulmt.models.model import Model, State


class SentenceStream:
    """One sentence, translated while its subwords arrive.

    With a bidirectional encoder nothing is written before EOS has been read.

    Args:
        model: in evaluation mode, on `device`.
        device: where the model is.
        limit: ends a translation that does not end by itself; None for `length_limit`.
    """

    def __init__(
        self, model: Model, device: torch.device = CPU, limit: LengthLimit | None = None
    ) -> None:
        self.model = model
        self.device = device
        self._limit = limit
        self.written = Hypothesis([], [], [])
        """The translation so far; each delay counts the subwords read until then, EOS included."""
        self.done = False
        """Whether the translation has ended, with EOS or at its length limit."""
        self._prefix: list[int] = []
        self._heard: State | None = None
        self._state: State | None = None

    @property
    def in_word(self) -> bool:
        """Whether the next subword may go on with the last word."""
        return not self.done

    def read_word(self, word: Sequence[int]) -> None:
        """Read the subwords of a source word; EOS alone at the end of the sentence."""
        for unit in [word] if self.model.reads_words else [[token] for token in word]:
            self._read(unit)

    @torch.inference_mode()
    def _read(self, unit: Sequence[int]) -> None:
        if self.done or not unit:
            return
        self._prefix += unit
        if not self.model.causal and unit[-1] != self.model.vocabulary.eos:
            return  # `is_causal` allows such an encoder only for mechanisms that read all first
        self._encode(unit)
        has_read = True
        while not self.done and self._write(has_read):
            has_read = False

    def _encode(self, unit: Sequence[int]) -> None:
        if not self.model.causal:
            self._state = replay(self.model, self._prefix, self.written, self.device)
            return
        source, self._heard = self.model.listen(
            torch.tensor([unit], device=self.device), self._heard
        )
        if self._state is None:
            self._state = self.model.start(source)
        else:
            self._state = self.model.extend(self._state, source)

    def _write(self, has_read: bool) -> bool:
        """Write a subword if the model decides so; returns whether a subword was written."""
        written = self.written
        step, decision = take_step(
            self.model, self._state, written, self.device, has_read, self._limit
        )
        self.done = bool(decision.ends)
        if decision.reads or decision.ends:
            return False
        written.write(int(decision.token), len(self._prefix), step.positions[0].tolist())
        self._state = step.state
        return True
