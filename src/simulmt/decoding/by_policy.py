"""Simultaneous decoding of any model by a policy: whole batches, and one sentence as it arrives.

After each source word the model drafts, and the policy commits. A causal encoder continues from
where it was; a bidirectional one runs again on all that is read. A batch gets exactly the words and
delays of streams.
"""

from collections.abc import Sequence
from typing import TypeAlias

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from simulmt.attention import Past
from simulmt.attention.state import State, select
from simulmt.decoding.drafting import Drafter, shown
from simulmt.decoding.encoded_prefix import EncodedPrefix, encode_units, grouped, padded
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.incremental import SentenceStream
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import GREEDY, Search
from simulmt.decoding.sentence import Read, Sentence
from simulmt.models.joined import join
from simulmt.models.model import Model


@torch.inference_mode()
def decode_by(
    policy: Policy | Sequence[Policy],
    model: Model,
    source: Int[Tensor, "B S"],
    mask: Bool[Tensor, "B S"],
    search: Search = GREEDY,
) -> list[Hypothesis]:
    """Translate a batch of sentences simultaneously.

    Args:
        policy: commits words of drafts; one for all rows, or one of the same kind for each.
        model: in evaluation mode.
        source: token ids, EOS last, padded on the right.
        mask: True for real tokens.
        search: how drafts are made: greedily, or with a beam.

    Returns:
        One hypothesis per row, in the rows' order.
    """
    policies = [policy] * len(source) if isinstance(policy, Policy) else policy
    drafter = Drafter(model, policies[0], search)
    model = drafter.model
    sentences = [*map(Sentence, policies)]
    ends = model.word_ends(source, mask)
    reads = [*map(reads_of, ends)]
    whole = model.start(model.encode(source, mask)) if model.causal else None
    for now in range(max(map(len, reads))):
        going = [
            n
            for n, (sentence, own) in enumerate(zip(sentences, reads, strict=True))
            if now < len(own) and sentence.most(own[now]) != 0
        ]
        if not going:
            continue
        read = [reads[n][now] for n in going]
        rows = torch.tensor(going, device=source.device)
        start = _start(model, source[rows], read) if whole is None else select(whole, rows)
        own = [sentences[n] for n in going]
        for sentence, drafted, one in zip(own, drafter(start, own, read), read, strict=True):
            sentence.take(drafted, one)
    return [sentence.written for sentence in sentences]


class PolicyStream:
    """One sentence, translated while its words arrive.

    Args:
        model: in evaluation mode.
        policy: commits words of drafts.
        search: how drafts are made: greedily, or with a beam.
        told: True if EOS of the source ends the sentence; False in a stream, where the model does.
        past: what precedes it in a stream, of one row without padding.
    """

    def __init__(
        self,
        model: Model,
        policy: Policy,
        search: Search = GREEDY,
        told: bool = True,
        past: Past | None = None,
    ) -> None:
        self.drafter = Drafter(model, policy, search)
        self.model = self.drafter.model
        self.sentence = Sentence(policy)
        self.prefix = EncodedPrefix(self.model, past=past)
        self.words = 0
        """The number of source words read."""
        self._told = told

    @property
    def written(self) -> Hypothesis:
        """The translation so far; each delay counts the subwords read until then, EOS included."""
        return self.sentence.written

    @property
    def done(self) -> bool:
        """True once the translation has ended."""
        return self.sentence.done

    @property
    def in_word(self) -> bool:
        """False: the last word is whole, as only whole words are written."""
        return False

    def read_word(self, word: Sequence[int]) -> None:
        """Read the subwords of a source word; EOS alone at the end of the sentence."""
        self.read_words([self], [word])

    @staticmethod
    @torch.inference_mode()
    def read_words(streams: Sequence["PolicyStream"], words: Sequence[Sequence[int]]) -> None:
        """Let sentences of one model, policy and search read a word each, as if each were alone."""
        pairs = zip(streams, words, strict=True)
        reading = [(one, word) for one, word in pairs if word and not one.sentence.done]
        for one, word in reading:
            one.words += word[-1] != one.model.vocabulary.eos
        for group in grouped([one.prefix for one, _ in reading], [word for _, word in reading]):
            _read([reading[n] for n in group])
        drafting = [one for one, _ in reading if one.sentence.most(one.read) != 0]
        for group in grouped([one.prefix for one in drafting], [()] * len(drafting)):
            _draft([drafting[n] for n in group])

    @property
    def read(self) -> Read:
        """What has been read, of at least a word."""
        tokens = self.prefix.tokens
        ended = tokens[-1] == self.model.vocabulary.eos
        return Read(self.words, len(tokens), ended, told=self._told or ended)


LiveSentence: TypeAlias = SentenceStream | PolicyStream
"""A sentence that is translated while its words arrive."""


def begin_sentence(
    model: Model,
    policy: Policy | None,
    search: Search = GREEDY,
    told: bool = True,
    past: Past | None = None,
) -> LiveSentence:
    """Begin a sentence, by a policy or by the model's own decision (None), which is greedy."""
    if policy is None:
        return SentenceStream(model, past)
    return PolicyStream(model, policy, search, told, past)


def _read(reading: Sequence[tuple[PolicyStream, Sequence[int]]]) -> None:
    """Let a group of sentences read a word each."""
    model, prefixes = reading[0][0].model, [one.prefix for one, _ in reading]
    if model.extends:
        decoders = encode_units(prefixes, [word for _, word in reading]).alone()
        for prefix, decoder in zip(prefixes, decoders, strict=True):
            prefix.decoder = decoder
        return
    for prefix, (_, word) in zip(prefixes, reading, strict=True):
        prefix.tokens += word


def _draft(streams: Sequence[PolicyStream]) -> None:
    """Let a group of sentences write what the policy commits of new drafts."""
    model, prefixes = streams[0].model, [one.prefix for one in streams]
    reads, sentences = [one.read for one in streams], [one.sentence for one in streams]
    if model.extends:
        start = join([prefix.decoder for prefix in prefixes]).state
    else:
        start = _start(model, padded(prefixes)[0], reads)
    drafts = streams[0].drafter(start, sentences, reads)
    for one, drafted, read in zip(streams, drafts, reads, strict=True):
        one.sentence.take(drafted, read)
        if one.sentence.done:
            one.prefix.free()


def reads_of(ends: Bool[Tensor, "S"]) -> list[Read]:
    """What has been read after each word of a sentence, and after its EOS.

    Args:
        ends: True at the last subword of each word, and at EOS.
    """
    *words, length = (ends.nonzero()[:, 0] + 1).tolist()
    reads = [Read(word, end, ended=False) for word, end in enumerate(words, 1)]
    return [*reads, Read(len(words), length, ended=True)]


def _start(model: Model, source: Int[Tensor, "B S"], reads: Sequence[Read]) -> State:
    """The decoder before its first step, with an encoder run on prefixes.

    EOS closes each prefix for an encoder that was trained on whole sentences.
    """
    pad, eos = model.vocabulary.pad, model.vocabulary.eos
    length = torch.tensor([read.subwords for read in reads], device=source.device)
    seen = shown(model, reads, source.device)
    source = torch.nn.functional.pad(source, (0, 1), value=pad)[:, : int(seen.max())]
    place = torch.arange(source.shape[1], device=source.device)
    source = source.masked_fill(place >= length[:, None], eos)
    mask = place < seen[:, None]
    state: State = model.start(model.encode(source.masked_fill(~mask, pad), mask))
    return state
