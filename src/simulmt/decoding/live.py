"""Streaming at the cost of what is new: one encoder step for each token read.

`simulmt.decoding.streaming` says what has to come out, this says how to get it without encoding
anything twice: source states, keys and values are kept, and so is the decoder. Only the step that
waits for more of the source is taken anew after each read. What a model's `listen` costs is its
own affair: with `model.encoder=reencoding` it encodes the whole prefix again.
"""

from __future__ import annotations

import torch

from simulmt.data.subwords import BOS, EOS
from simulmt.decoding.greedy import Hypothesis, length_limit, next_token
from simulmt.decoding.streaming import replay
from simulmt.models.model import Model, State

_CPU = torch.device("cpu")


class Live:
    """One sentence, translated while its subwords arrive.

    With a bidirectional encoder nothing is done before EOS: such a model reads all first.

    Args:
        model: in evaluation mode, on `device`.
        device: where the model is.
    """

    def __init__(self, model: Model, device: torch.device = _CPU) -> None:
        self.model = model
        self.device = device
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
        if not self.model.causal and token != EOS:
            return []  # nothing can be written yet: `simulmt.models.model.is_causal` sees to that
        self._take_in(token)
        before = len(self.written.tokens)
        while not self.done and self._write():
            pass
        return self.written.tokens[before:]

    def _take_in(self, token: int) -> None:
        if not self.model.causal:
            self._state = replay(self.model, self._prefix, self.written.tokens, self.device)
            return
        heard = torch.tensor([token], device=self.device)
        states, self._heard = self.model.listen(heard, self._heard)
        finished = heard == EOS
        if self._state is None:
            self._state = self.model.start(states, torch.ones_like(finished)[:, None], finished)
        else:
            self._state = self.model.extend(self._state, states, finished)

    def _write(self) -> bool:
        """Write a subword if that can be decided already."""
        last = torch.tensor([[BOS, *self.written.tokens][-1]], device=self.device)
        step = self.model.step(last, self._state)
        if step.wants_to_read:
            return False
        token = int(next_token(step.logits))
        if token == EOS or len(self.written.tokens) + 1 > int(length_limit(step.read)):
            self.done = True
            return False
        self.written.tokens.append(token)
        self.written.delays.append(len(self._prefix))
        self.written.positions.append(step.positions[0].tolist())
        self._state = step.state
        return True
