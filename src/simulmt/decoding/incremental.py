"""Streaming at the cost of what is new: one encoder step for each token read.

`simulmt.decoding.streaming` says what has to come out. Here source states, keys, values and the
decoder's state are kept, and only the step that waits for more of the source is taken anew after
each read. A model's `listen` may cost more: with `model.encoder=reencoding` it encodes the whole
prefix again.
"""

from __future__ import annotations

import torch

from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.policies import OWN
from simulmt.decoding.policy import Policy
from simulmt.decoding.streaming import CPU, progress_of, replay
from simulmt.models.model import Model, State


class SentenceStream:
    """One sentence, translated while its subwords arrive.

    With a bidirectional encoder nothing is done before EOS: such a model reads all first.

    Args:
        model: in evaluation mode, on `device`.
        device: where the model is.
        policy: decides between reading and writing.
    """

    def __init__(self, model: Model, device: torch.device = CPU, policy: Policy = OWN) -> None:
        self.model = model
        self.device = device
        self.policy = policy
        self.written = Hypothesis([], [], [])
        """What has been written; each delay counts the subwords read until then, EOS included."""
        self.done = False
        """Whether the translation has ended, of itself or at its limit."""
        self._prefix: list[int] = []
        self._heard: State | None = None
        self._state: State | None = None

    @torch.inference_mode()
    def read(self, token: int) -> list[int]:
        """Take in a source subword, EOS at the end; returns the subwords written upon it."""
        if self.done:
            return []
        self._prefix.append(token)
        if not self.model.causal and token != self.model.vocabulary.eos:
            return []  # `simulmt.models.model.is_causal` sees to it that nothing can be written
        self._take_in(token)
        before = len(self.written.tokens)
        while not self.done and self._write():
            pass
        return self.written.tokens[before:]

    def _take_in(self, token: int) -> None:
        if not self.model.causal:
            self._state = replay(self.model, self._prefix, self.written.tokens, self.device)
            return
        source, self._heard = self.model.listen(
            torch.tensor([token], device=self.device), self._heard
        )
        if self._state is None:
            self._state = self.model.start(source)
        else:
            self._state = self.model.extend(self._state, source)

    def _write(self) -> bool:
        """Write a subword if the policy says so; returns whether it did."""
        vocabulary, written = self.model.vocabulary, self.written
        last = [vocabulary.bos, *written.tokens][-1:]
        step = self.model.step(torch.tensor(last, device=self.device), self._state)
        progress = progress_of(self._prefix, written, vocabulary.eos, self.device)
        reads, ends, token = self.policy.decide(vocabulary, progress, step)
        self.done = bool(ends)
        if reads or ends:
            return False
        written.write(int(token), len(self._prefix), step.positions[0].tolist())
        self._state = step.state
        return True
