"""Decodes a whole split in batches, which the processes of a run share."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from simulmt.data.batches import ordered_batches
from simulmt.data.corpus import Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.decoder import Decode, decoder
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.instance import Instance
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import Search
from simulmt.decoding.word_map import WordMap
from simulmt.decoding.writing import words_of
from simulmt.models.model import Model
from simulmt.system.processes import gather, rank_and_world_size


def hypotheses(
    model: Model,
    encoded: EncodedSplit,
    batches: Iterable[list[int]],
    decoder_of: Callable[[list[int]], Decode],
) -> Iterator[tuple[int, Hypothesis]]:
    """Yield each sentence of some batches, by its place, with its translation."""
    device = model.begins.device
    for rows in batches:
        batch = encoded.batch(rows)
        found = decoder_of(rows)(model, batch.source.to(device), batch.source_mask.to(device))
        yield from zip(rows, found, strict=True)


@dataclass(frozen=True)
class SplitDecoder:
    """Decodes one split; every process returns all instances.

    Args:
        split: the sentences.
        subwords: the model's vocabulary.
        tokens: largest number of tokens in a batch, all hypotheses together.
        search: as for `decoder`.
        policy: as for `decoder`.
        encoded: the same sentences as subwords; None to encode them when they are decoded.
    """

    split: Split
    subwords: Tokenizer
    tokens: int
    search: Search
    policy: Policy | None = None
    encoded: EncodedSplit | None = None

    def __call__(
        self,
        model: Model,
        watch: Callable[[list[list[int]]], Iterable[list[int]]] = iter,
    ) -> list[Instance]:
        """The instances in the order of the split.

        Args:
            model: the translation model, on any device.
            watch: wraps the loop over batches, to show its progress.
        """
        encoded, tokens = self.encoded, max(1, self.tokens // self.search.beam)
        encoded = EncodedSplit.encode(self.split, self.subwords) if encoded is None else encoded
        rank, world_size = rank_and_world_size()
        batches = ordered_batches(encoded.lengths, tokens, rank=rank, world_size=world_size)
        was_training = model.training
        model.eval()
        words = self.subwords.source_words
        policies = self.policy and self.policy.on(self.split.sources, words)

        def decode_of(rows: list[int]) -> Decode:
            return decoder(self.search, policies and [policies[row] for row in rows])

        found = hypotheses(model, encoded, watch(batches), decode_of)
        decoded = [write_down(row, self.split, own, self.subwords) for row, own in found]
        model.train(was_training)
        instances = [instance for part in gather(decoded) for instance in part]
        return sorted(instances, key=lambda instance: instance.index)


def write_down(index: int, split: Split, hypothesis: Hypothesis, subwords: Tokenizer) -> Instance:
    """The instance of a hypothesis.

    Args:
        index: place of the sentence in the split, from 0.
        split: source sentences and references.
        hypothesis: the translation.
        subwords: the vocabulary of the model.
    """
    text, reference, tokens = split.sources[index], split.targets[index], hypothesis.tokens
    source, target = subwords.encode_source(text), subwords.target_words(tokens)
    words = len(words_of(text, subwords.writing.source))  # the last may have no subword
    erased = hypothesis.erased
    touched, positions = subwords.source_words(text), tuple(map(tuple, hypothesis.positions))
    read, with_end = WordMap((*touched, words)), WordMap((*touched, words + 1))
    return Instance(
        index=index,
        source=text,
        reference=reference,
        prediction=" ".join(subwords.words(tokens)),
        delays=target.delays(hypothesis.delays, read),
        subword_delays=tuple(hypothesis.delays),
        before_end=sum(hypothesis.delays[end - 1] <= len(source) for end in target.ends),
        subword_source_length=len(source),
        subword_reference_length=len(subwords.encode_target(reference)),
        positions=positions,
        word_positions=target.stops(positions, with_end) if positions else (),
        erased=None if erased is None else sum(len(subwords.words(word)) for word in erased),
        writing=subwords.writing,
    )
