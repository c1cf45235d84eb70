"""The model's own decision: its clock or its schedules decide when to read (MMA, Algorithm 1)."""

from simulmt.decoding.policy import Decision, Policy, Progress, length_limit, likeliest
from simulmt.models.model import DecoderStep
from simulmt.vocabulary import Vocabulary


class OwnDecision(Policy):
    """Read while the clock or a head wants to read, then write the likeliest token."""

    def decide(self, vocabulary: Vocabulary, progress: Progress, step: DecoderStep) -> Decision:
        """Read, write or end; the translation ends with EOS or at `length_limit`."""
        token = likeliest(step.logits, vocabulary)
        full = progress.written >= length_limit(step.read)
        ends = ((token == vocabulary.eos) | full) & ~step.wants_to_read
        return Decision(step.wants_to_read, ends, token)
