"""Streaming at the cost of the new tokens alone: one encoder step for each token read.

`simulmt.decoding.streaming` defines the result. Source states, keys, values and the decoder's state
are kept here; after a read only the step that waited for more of the source is repeated. A model's
`listen` may cost more: with `model.encoder=reencoding` the whole prefix is encoded again.
"""

import torch

from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.policies import OWN
from simulmt.decoding.policy import Policy
from simulmt.decoding.streaming import CPU, decide, replay
from simulmt.models.model import Model, State


class SentenceStream:
    """One sentence, translated while its subwords arrive.

    With a bidirectional encoder nothing is written before EOS has been read.

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
        """The translation so far; each delay counts the subwords read until then, EOS included."""
        self.done = False
        """Whether the translation has ended, with EOS or at its length limit."""
        self._prefix: list[int] = []
        self._heard: State | None = None
        self._state: State | None = None

    @torch.inference_mode()
    def read(self, token: int) -> list[int]:
        """Read a source subword, EOS at the end; returns the subwords written after this read."""
        if self.done:
            return []
        self._prefix.append(token)
        if not self.model.causal and token != self.model.vocabulary.eos:
            return []  # `is_causal` allows such an encoder only for mechanisms that read all first
        self._encode(token)
        before = len(self.written.tokens)
        while not self.done and self._write():
            pass
        return self.written.tokens[before:]

    def _encode(self, token: int) -> None:
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
        """Write a subword if the policy decides so; returns whether a subword was written."""
        prefix, written = self._prefix, self.written
        step, decision = decide(self.model, self._state, prefix, written, self.policy, self.device)
        self.done = bool(decision.ends)
        if decision.reads or decision.ends:
            return False
        written.write(int(decision.token), len(prefix), step.positions[0].tolist())
        self._state = step.state
        return True
