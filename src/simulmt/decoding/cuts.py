"""Where a segment of a stream ends in the source, once its translation has ended."""

from collections.abc import Mapping
from itertools import accumulate

import torch
from jaxtyping import Int
from torch import Tensor

from simulmt.attention import Past
from simulmt.decoding.document import Cut, Words
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.policies import name_of
from simulmt.decoding.policy import Policy
from simulmt.decoding.word_map import WordMap
from simulmt.errors import UserError
from simulmt.models.model import Model
from simulmt.options import pick

STREAM, LINES, PUNCTUATION = TOLD = "model", "lines", "punctuation"
"""What `sentences` can name: who ends a sentence, the model, the lines of the text or its marks."""
TOLERANCE = 0.5
"""Nats by which a prefix may explain a translation worse than the prefix that explains it best."""


@torch.inference_mode()
def pointed(model: Model, words: Words, written: Hypothesis, past: Past | None) -> int:
    """The word at which the decoder points when it writes EOS (`simulmt.models.boundary`)."""
    assert model.boundary is not None, "checked when the decoding was chosen"
    source, target = _tensors(model, words, written)
    mask = torch.ones_like(source, dtype=torch.bool)
    encoded = model.encode(source, mask, past)
    states = model.decode(encoded, target).states
    place = model.boundary(states[:, -1], encoded.states, mask).argmax()
    return WordMap.of_lengths(map(len, words)).at(int(place) + 1)


@torch.inference_mode()
def explained(model: Model, words: Words, written: Hypothesis, past: Past | None) -> int:
    """The shortest prefix of the source that explains what was written.

    Its log-likelihood is at most `TOLERANCE` nats below that of the prefix that explains it best.
    """
    source, target = _tensors(model, words, written)
    ends = torch.tensor([*accumulate(map(len, words))], device=source.device)
    mask = torch.arange(source.shape[1], device=source.device) < ends[:, None]
    source = source.expand(len(ends), -1).where(mask, model.vocabulary.pad)
    encoded = model.encode(source, mask, past and past.expand(len(ends)))
    states, output, *_ = model.decode(encoded, target.expand(len(ends), -1))
    following = torch.tensor([*written.tokens, model.vocabulary.eos], device=source.device)
    likely = output.likelihoods(states, following.expand(len(ends), -1)).sum(1)
    return int((likely >= likely.max() - TOLERANCE).nonzero()[0]) + 1


def read_until(model: Model, words: Words, written: Hypothesis, past: Past | None) -> int:
    """The word that the slowest head had read when the last token before EOS was written."""
    heads = written.positions[-1] if written.positions else ()
    if not all(heads):
        return len(words)
    return WordMap.of_lengths(map(len, words)).at(max(heads, default=1))


CUTS: Mapping[str, Cut] = {"pointer": pointed, "likelihood": explained, "reading": read_until}
"""What `cut` can name."""


def check_cut(cut: str, sentences: str | None) -> None:
    """Check the options `cut` and `sentences`.

    Raises:
        UserError: `cut` has no effect.
    """
    if cut != "pointer" and sentences != STREAM:
        raise UserError(
            f"cut={cut} has no effect without sentences={STREAM}: add it, or leave out cut"
        )


def cut_of(name: str, model: Model, policy: Policy | None) -> Cut:
    """Return the cut of a name, for a model that ends the sentences of a stream.

    Raises:
        UserError: the model or the policy ends no sentences, or the cut needs another model.
    """
    if policy and policy.revises:
        raise UserError(
            f"sentences=model: policy={name_of(policy)} takes words back, so no sentence would be "
            "final; choose another policy, such as local_agreement"
        )
    if policy is None and model.mechanism.offline:
        raise UserError(
            f"sentences=model: {model.mechanism.name} reads the whole source first; add a policy "
            "whose words are final, such as local_agreement"
        )
    if policy and not policy.ends:
        raise UserError(
            f"sentences=model: {policy} never writes the last words of a draft, so no sentence "
            "would end; set policy.n=0, or choose another policy, such as local_agreement"
        )
    if model.vocabulary.opening:
        raise UserError(
            "sentences=model does not work with a multilingual model, whose source sentences begin "
            "with a tag of the target language: choose sentences=lines"
        )
    vocabulary = model.vocabulary
    if policy and vocabulary.pad == vocabulary.bos and model.boundary is None:  # drafts end by BOS
        raise UserError(
            "sentences=model with a policy does not work with the subwords of an imported model "
            "and model.boundaries=false: choose sentences=lines, or train it on documents with "
            "model.boundaries=true (docs/streams.md)"
        )
    if name == "pointer" and model.boundary is None:
        other = "reading" if model.mechanism.several_states else "likelihood"
        raise UserError(
            f"cut=pointer: the model was trained with model.boundaries=false; choose cut={other}"
        )
    if name == "likelihood" and model.mechanism.several_states:
        raise UserError(
            f"cut=likelihood with mechanism={model.mechanism.name}, which has several states for "
            "each target token: choose cut=reading"
        )
    return pick(CUTS, name, "cut")


def _tensors(
    model: Model, words: Words, written: Hypothesis
) -> tuple[Int[Tensor, "1 S"], Int[Tensor, "1 T"]]:
    device = model.begins.device
    source = torch.tensor([[token for word in words for token in word]], device=device)
    return source, torch.tensor([[model.vocabulary.bos, *written.tokens]], device=device)
