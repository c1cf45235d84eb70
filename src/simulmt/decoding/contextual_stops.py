"""How much of a source each target word needs, by the likelihoods of an offline model.

A word can be written once the model, given a prefix of the source, finds it nearly as likely as
given the whole. So real text has an oracle without word links. Nothing closes a prefix; only the
whole source ends with EOS. Hibiki (Labiausse et al. 2025)
aligns speech by such likelihoods, at the prefix with the greatest gain.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt.decoding.word_map import WordMap
from simulmt.models.model import Model


@dataclass(frozen=True, eq=False)
class PrefixLikelihoods:
    """The log-likelihoods of the J words of a reference, given each of P prefixes of its source.

    Attributes:
        ends: The number of subwords of each prefix, which ends with a word; the last one is the
            whole source with EOS.
        words: The sum over the subwords of each word, after those before it in the reference.
    """

    ends: Int[Tensor, "P"]
    words: Float[Tensor, "P J"]

    def stops(self, epsilon: float) -> list[int]:
        """The subwords of the first prefix at which each word, and each before it, can be written.

        Args:
            epsilon: the nats by which a word may be less likely than given the whole source.
        """
        enough = self.words >= self.words[-1] - epsilon
        first = enough.to(torch.uint8).argmax(0).cummax(0).values
        stops: list[int] = self.ends[first].tolist()
        return stops


@torch.inference_mode()
def prefix_likelihoods(
    model: Model,
    source: Int[Tensor, "B S"],
    mask: Bool[Tensor, "B S"],
    target_input: Int[Tensor, "B T"],
    target: Int[Tensor, "B T"],
    words: Sequence[WordMap],
) -> list[PrefixLikelihoods]:
    """The likelihoods of the words of given targets, for all prefixes of a batch at once.

    Args:
        model: in evaluation mode; it reads the whole sentence first.
        source: token ids, EOS last, padded on the right.
        mask: True for real tokens.
        target_input: the decoder's input, BOS first.
        target: the tokens to write, EOS last.
        words: the word of each target token, without EOS.
    """
    ends = model.word_ends(source, mask)
    row, last = ends.nonzero(as_tuple=True)
    seen = torch.arange(source.shape[1], device=source.device) <= last[:, None]
    prefixes = source[row].where(seen, model.vocabulary.pad)
    states, output, *_ = model.decode(model.encode(prefixes, seen), target_input[row])
    likely = output.likelihoods(states, target[row])  # (P, T)
    counts = ends.sum(1).tolist()
    parts = zip(torch.split(last + 1, counts), torch.split(likely, counts), words, strict=True)
    return [PrefixLikelihoods(own, _by_word(of, each)) for own, of, each in parts]


def _by_word(likely: Float[Tensor, "P T"], words: WordMap) -> Float[Tensor, "P J"]:
    """Sums over the tokens of each word."""
    number = torch.tensor([*words], dtype=torch.long, device=likely.device)
    sums = likely.new_zeros(len(likely), max(words, default=0) + 1, dtype=torch.float64)
    sums = sums.index_add(1, number, likely[:, : len(words)].double())
    return sums[:, [words.at(end) for end in words.ends]]  # a token may end several words
