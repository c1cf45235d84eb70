"""The model's own decision: its clock or its schedules say when to read (MMA, Algorithm 1)."""

from __future__ import annotations

from simulmt.decoding.policy import Decision, Policy, Progress, length_limit, likeliest
from simulmt.models.model import DecoderStep
from simulmt.vocabulary import Vocabulary


class OwnDecision(Policy):
    """Read while a clock or a head wants to, then write the likeliest token."""

    def decide(self, vocabulary: Vocabulary, progress: Progress, said: DecoderStep) -> Decision:
        """The translation ends with EOS, or at `length_limit` of what the heads have read."""
        token = likeliest(said.logits, vocabulary)
        full = progress.written >= length_limit(said.read)
        ends = ((token == vocabulary.eos) | full) & ~said.wants_to_read
        return Decision(said.wants_to_read, ends, token)
