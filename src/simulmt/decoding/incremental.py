"""Streaming at the cost of the new tokens alone: one encoder step for each token read.

`simulmt.decoding.streaming` defines the result. Source states, keys, values and the decoder's state
are kept; after a read only the step that waited for more of the source is repeated. A model's
`encode_next` may cost more: with `model.encoder=reencoding` the whole prefix is encoded again.

Sentences at different points read and write in one batch; a single sentence is a batch of one.
"""

from collections.abc import Sequence
from itertools import zip_longest

import torch

from simulmt.attention import Past
from simulmt.decoding.encoded_prefix import EncodedPrefix, encode_units, grouped, padded
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.streaming import take_step
from simulmt.models.joined import Joined
from simulmt.models.model import Model


class SentenceStream:
    """One sentence, translated while its subwords arrive.

    With a bidirectional encoder nothing is written before EOS has been read.

    Args:
        model: in evaluation mode.
        past: what precedes it in a stream, of one row without padding.
    """

    def __init__(self, model: Model, past: Past | None = None) -> None:
        self.model = model
        self.written = Hypothesis([], [], [])
        """The translation so far; each delay counts the subwords read until then, EOS included."""
        self.done = False
        """True once the translation has ended, with EOS or at its length limit."""
        self.prefix = EncodedPrefix(model, past=past)

    @property
    def in_word(self) -> bool:
        """True if the next subword may continue the last word."""
        return not self.done

    def read_word(self, word: Sequence[int]) -> None:
        """Read the subwords of a source word; EOS alone at the end of the sentence."""
        self.read_words([self], [word])

    @staticmethod
    @torch.inference_mode()
    def read_words(streams: Sequence["SentenceStream"], words: Sequence[Sequence[int]]) -> None:
        """Let sentences of one model read a word each, as if each were alone."""
        units = [
            [word] if stream.model.reads_words else [[token] for token in word]
            for stream, word in zip(streams, words, strict=True)
        ]
        for turn in zip_longest(*units, fillvalue=()):
            pairs = zip(streams, turn, strict=True)
            reading = [(stream, unit) for stream, unit in pairs if unit and not stream.done]
            own, new = [stream for stream, _ in reading], [unit for _, unit in reading]
            for group in grouped([stream.prefix for stream in own], new):
                _read([own[n] for n in group], [new[n] for n in group])


def _read(streams: Sequence[SentenceStream], units: Sequence[Sequence[int]]) -> None:
    """Let a group of sentences read, and write until each wants to read on."""
    model, prefixes = streams[0].model, [stream.prefix for stream in streams]
    if model.causal:
        _write(streams, encode_units(prefixes, units))
        return
    for prefix, unit in zip(prefixes, units, strict=True):
        prefix.tokens += unit
    # `is_causal` allows such an encoder only for mechanisms that read all first
    ended = [one for one in streams if one.prefix.tokens[-1] == model.vocabulary.eos]
    if ended:
        source, mask = padded([stream.prefix for stream in ended])
        _write(ended, Joined(model.start(model.encode(source, mask))))


def _write(streams: Sequence[SentenceStream], decoders: Joined) -> None:
    """Write until each sentence has ended or wants to read; keep the decoders of the latter."""
    model, has_read = streams[0].model, True
    while streams:
        written = [stream.written for stream in streams]
        step, decision = take_step(model, decoders.state, written, has_read)
        reads, writes = [], []
        columns = (decision.reads, decision.ends, decision.token, step.positions)
        rows = zip(streams, *(column.tolist() for column in columns), strict=True)
        for n, (stream, wants, ends, token, positions) in enumerate(rows):
            if wants:
                reads.append(n)
            elif ends:
                stream.done = True
                stream.prefix.free()
            else:
                writes.append(n)
                stream.written.write(token, len(stream.prefix.tokens), positions)
        if reads:
            for n, own in zip(reads, decoders.select(reads).alone(), strict=True):
                streams[n].prefix.decoder = own
        if writes:
            decoders = decoders.grown(step.state).select(writes)
        streams, has_read = [streams[n] for n in writes], False
