"""Two-stage beam search, whose translations keep to the order of the source (Wang et al. 2023).

A teacher that reads whole sentences writes translations for a student that will read less. At
target step i the 2 W candidates of a beam of W are those that the teacher finds likeliest when it
is given only the first `min(i + k - 1, S)` of the S source tokens. From there on the search is the
ordinary one: log P given the whole source orders the candidates, W of them continue, those that end
among the first W are finished, and the finished hypothesis with the best score wins. So a
hypothesis has to be good, and each of its tokens has to be plausible early. With `k >= S` the
search is the ordinary one.

Nothing closes a prefix: its encoder runs on the first tokens alone. EOS after them would tell the
teacher that the sentence is over; a candidate that ends too early is scored on the whole
source, too.

The score on a prefix counts all tokens of a hypothesis, so its decoder runs again over all of them
at each step until the whole source is read. The decoder on the whole source takes one step.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt.attention.state import select
from simulmt.decoding.beam import Beams, Sentences, search_from
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.search import Search
from simulmt.models.model import Model


@torch.inference_mode()
def monotonic_beam_search(
    model: Model, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], search: Search, k: int
) -> list[Hypothesis]:
    """Translate a batch in the order of the source, as far as the whole sentence permits.

    Args:
        model: in evaluation mode; it reads the whole sentence first.
        source: token ids, EOS last, padded on the right.
        mask: True for real tokens.
        search: beam and length penalty.
        k: number of source tokens that choose the candidates of the first step, without those that
            open each sentence.

    Returns:
        The best hypothesis of each row, in the rows' order.

    Raises:
        ValueError: the model writes before it has read the whole sentence.
    """
    first = k + len(model.vocabulary.opening)

    def rank(
        beams: Beams, sentences: Sentences, log_p: Float[Tensor, "BW V"]
    ) -> Float[Tensor, "BW V"]:
        length = first + beams.tokens.shape[1] - 1
        longer = sentences.read > length
        if not longer.any():
            return log_p
        rows = longer.repeat_interleave(len(log_p) // len(longer))
        prefixes = source[sentences.row[longer], :length]
        early = _continued(model, prefixes, beams.tokens[rows])
        ranked = log_p.clone()
        ranked[rows] = early.masked_fill(log_p[rows] == -torch.inf, -torch.inf)
        return ranked

    state = model.start(model.encode(source, mask))
    return search_from(model, state, mask.sum(1), search, rank=rank)


def _continued(
    model: Model, prefixes: Int[Tensor, "N n"], tokens: Int[Tensor, "NW i"]
) -> Float[Tensor, "NW V"]:
    """The log P of hypotheses, BOS first, with each token after them, given prefixes."""
    encoded = model.encode(prefixes, torch.ones_like(prefixes, dtype=torch.bool))
    owner = torch.arange(len(tokens), device=tokens.device) // (len(tokens) // len(prefixes))
    states, output, *_ = model.decode(select(encoded, owner), tokens)
    *earlier, last = states.unbind(1)  # the logits of one step at a time are held
    log_p = output(last).double().log_softmax(-1)
    for state, token in zip(earlier, tokens[:, 1:].unbind(1), strict=True):
        log_p += output(state).double().log_softmax(-1).gather(1, token[:, None])
    return log_p
