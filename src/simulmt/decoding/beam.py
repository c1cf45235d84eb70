"""Beam search, in batches, for models that read the whole sentence before they write.

At each step the hypotheses that end among the `beam` likeliest continuations are finished, and the
`beam` likeliest of the others continue. A sentence is done once `beam` hypotheses are finished, so
that a beam of 1 is greedy and no search continues for unlikely hypotheses. A sentence is also done
once no unfinished hypothesis can beat the best finished one.

A hypothesis ends at the model's `length_limit`, as in `greedy`. Its score then includes the EOS
that it lacks; otherwise an endless loop would outscore whole sentences.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulmt.attention.state import State, select
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.search import Search
from simulmt.models.model import Model
from simulmt.models.results import DecoderStep


class Beams(NamedTuple):
    """Unfinished hypotheses: W rows, W being the beam, for each of B sentences, best first."""

    state: State
    log_p: Float[Tensor, "BW"]
    """-inf in a row that holds no hypothesis."""
    tokens: Int[Tensor, "BW t"]
    """BOS, and the subwords written."""
    positions: Int[Tensor, "BW tLH"]
    """Positions of the heads at each subword written."""


class Sentences(NamedTuple):
    """The B sentences whose search continues."""

    row: Int[Tensor, "B"]
    """Their rows in the batch."""
    read: Int[Tensor, "B"]
    """Number of source tokens, EOS included."""
    limit: Int[Tensor, "B"]
    """The most subwords that a hypothesis may have, without EOS."""
    finished: Int[Tensor, "B"]
    """Number of finished hypotheses."""
    best: Float[Tensor, "B"]
    """The best score of the finished hypotheses; -inf if there is none."""


class Candidates(NamedTuple):
    """2 W continuations of each sentence, the likeliest unless a rank chooses; best first."""

    log_p: Float[Tensor, "B 2W"]
    parent: Int[Tensor, "B 2W"]
    """Rows of `Beams` that the candidates continue."""
    token: Int[Tensor, "B 2W"]
    ends: Bool[Tensor, "B 2W"]
    """True if the token is EOS."""


Rank: TypeAlias = Callable[[Beams, Sentences, Float[Tensor, "BW V"]], Float[Tensor, "BW V"]]
"""Scores that choose the candidates, given log P of all continuations: -inf where that is -inf."""


@torch.inference_mode()
def beam_search(
    model: Model, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], search: Search
) -> list[Hypothesis]:
    """Translate a batch; a beam of 1 gives what `greedy` gives.

    Args:
        model: in evaluation mode; it reads the whole sentence first.
        source: token ids, EOS last, padded on the right.
        mask: True for real tokens.
        search: beam and length penalty.

    Returns:
        The best hypothesis of each row, in the rows' order.

    Raises:
        ValueError: the model writes before it has read the whole sentence.
    """
    return search_from(model, model.start(model.encode(source, mask)), mask.sum(1), search)


def search_from(
    model: Model,
    state: State,
    read: Int[Tensor, "B"],
    search: Search,
    prefix: Sequence[Sequence[int]] | None = None,
    rank: Rank | None = None,
    limit: Int[Tensor, "B"] | None = None,
) -> list[Hypothesis]:
    """The same from the decoder before its first step.

    Args:
        model: in evaluation mode.
        state: the decoder, a row for each sentence, which sees all that is read.
        read: number of source tokens read.
        search: beam and length penalty.
        prefix: whole words that each sentence's hypotheses begin with; None for none.
        rank: chooses the candidates of each step, which log P then orders; None to choose the
            likeliest.
        limit: the most subwords of each hypothesis; None for the model's `length_limit`.

    Returns:
        The best hypotheses, with what they begin with.
    """
    written = [Hypothesis([], [], []) for _ in range(len(read))]
    limit = model.length_limit(read) if limit is None else limit
    beams, sentences = _start(model, state, read, limit, search.beam)
    length = 0  # of hypotheses that end now, EOS included
    while len(sentences.row):
        step = model.step(beams.tokens[:, -1], beams.state)
        barred = _barred(model, sentences, length, prefix)
        if (step.read.view(-1, search.beam) != sentences.read[:, None]).any():
            raise ValueError(
                "beam search takes words back, so the model must read the whole sentence first"
            )
        length += 1
        log_p, token = _continue(step, beams, barred, all_tokens=rank is not None)
        ranked = log_p if rank is None else rank(beams, sentences, log_p)
        candidates = _choose(ranked, log_p, token, search.beam, model.vocabulary.eos)
        sentences = _finish(candidates, beams, sentences, written, length, search)
        beams = _go_on(candidates, step, beams, search.beam)
        done = (length > sentences.limit) | _decided(beams, sentences, search)
        if done.any():
            beams = select(beams, ~done.repeat_interleave(search.beam))
            sentences = select(sentences, ~done)
    return written


def _barred(
    model: Model, sentences: Sentences, length: int, prefix: Sequence[Sequence[int]] | None
) -> Bool[Tensor, "B V"]:
    """What may not follow `length` tokens: all but EOS at the limit, and all but the prefix.

    After the prefix a word begins.
    """
    vocabulary, begins = model.vocabulary, model.begins
    token = torch.arange(len(begins), device=begins.device)
    barred = (sentences.limit <= length)[:, None] & (token != vocabulary.eos)
    barred[:, [vocabulary.pad, vocabulary.bos]] = True
    if prefix is not None:
        for place, row in enumerate(sentences.row.tolist()):
            tokens = prefix[row]
            if length < len(tokens):
                barred[place] = token != tokens[length]
            elif length == len(tokens) > 0:
                barred[place] |= ~begins
    return barred


def _start(
    model: Model, state: State, read: Int[Tensor, "B"], limit: Int[Tensor, "B"], beam: int
) -> tuple[Beams, Sentences]:
    """Before the first step: one empty hypothesis for each sentence, and room for the others."""
    B = len(read)
    row = torch.arange(B, device=read.device)
    log_p = torch.full((B, beam), -torch.inf, dtype=torch.float64, device=read.device)
    log_p[:, 0] = 0
    tokens = torch.full_like(row, model.vocabulary.bos).repeat_interleave(beam)[:, None]
    beams = Beams(
        select(state, row.repeat_interleave(beam)), log_p.flatten(), tokens, tokens[:, :0]
    )
    best = torch.full_like(log_p[:, 0], -torch.inf)
    return beams, Sentences(row, read, limit, torch.zeros_like(row), best)


def _continue(
    step: DecoderStep, beams: Beams, barred: Bool[Tensor, "B V"], all_tokens: bool
) -> tuple[Float[Tensor, "BW N"], Int[Tensor, "BW N"]]:
    """The log P of continuations, and their tokens: of all, or of the 2 W likeliest of each row."""
    W, logits = len(beams.log_p) // len(barred), step.logits
    token = torch.arange(logits.shape[1], device=logits.device)
    largest = logits.amax(1, keepdim=True)
    total = (logits - largest).exp_().sum(1, keepdim=True).double().log_() + largest
    logits = logits.masked_fill(barred.repeat_interleave(W, 0), -torch.inf)
    token = token.expand_as(logits)
    if not all_tokens:  # at most W of 2 W are EOS
        logits, token = logits.topk(min(2 * W, logits.shape[1]))
    # float64, so that different logits do not become a tie, which greedy would not see
    return logits.double() - total + beams.log_p[:, None], token


def _choose(
    ranked: Float[Tensor, "BW N"],
    log_p: Float[Tensor, "BW N"],
    token: Int[Tensor, "BW N"],
    beam: int,
    eos: int,
) -> Candidates:
    """The 2 W continuations of each sentence that are ranked highest, ordered by log P."""
    N = log_p.shape[1]
    # N is at least 2, so there are that many
    chosen = ranked.view(-1, beam * N).topk(2 * beam).indices
    scores = log_p.view(-1, beam * N).gather(1, chosen)
    values, order = scores.sort(dim=1, descending=True, stable=True)
    chosen = chosen.gather(1, order)
    first = torch.arange(0, len(log_p), beam, device=log_p.device)[:, None]
    tokens = token.reshape(-1, beam * N).gather(1, chosen)
    return Candidates(values, first + chosen // N, tokens, tokens == eos)


def _finish(
    candidates: Candidates,
    beams: Beams,
    sentences: Sentences,
    written: list[Hypothesis],
    length: int,
    search: Search,
) -> Sentences:
    """Finish the hypotheses that end among the likeliest, and record the best of each sentence."""
    ends = candidates.ends & (candidates.log_p > -torch.inf)
    ends[:, search.beam :] = False
    scores = (candidates.log_p / search.normaliser(length)).masked_fill(~ends, -torch.inf)
    score, place = scores.max(1)
    better = score > sentences.best
    parents = candidates.parent.gather(1, place[:, None])[better, 0]
    rows, reads = sentences.row[better].tolist(), sentences.read[better].tolist()
    for row, read, parent in zip(rows, reads, parents.tolist(), strict=True):
        tokens = beams.tokens[parent, 1:].tolist()
        heads = beams.positions.shape[1] // max(len(tokens), 1)
        positions = beams.positions[parent].view(len(tokens), heads).tolist()
        written[row] = Hypothesis(tokens, [read] * len(tokens), positions)
    return sentences._replace(
        finished=sentences.finished + ends.sum(1), best=sentences.best.maximum(score)
    )


def _go_on(candidates: Candidates, step: DecoderStep, beams: Beams, beam: int) -> Beams:
    """The likeliest candidates that do not end."""
    going = candidates.log_p.masked_fill(candidates.ends, -torch.inf).topk(beam)
    parent = candidates.parent.gather(1, going.indices).flatten()
    token = candidates.token.gather(1, going.indices).flatten()
    return Beams(
        select(step.state, parent),
        going.values.flatten(),
        torch.cat([beams.tokens[parent], token[:, None]], 1),
        torch.cat([beams.positions[parent], step.positions[parent]], 1),
    )


def _decided(beams: Beams, sentences: Sentences, search: Search) -> Bool[Tensor, "B"]:
    """True if a sentence is done: enough hypotheses are finished, or none can beat the best."""
    # No hypothesis ends with more than log_p / lp(limit + 1): log_p is at most 0 and only falls, lp
    # never falls with the length, and the length is at most limit + 1.
    longest = search.normaliser((sentences.limit + 1).double())
    bound = beams.log_p.view(-1, search.beam)[:, 0] / longest
    return (sentences.finished >= search.beam) | (sentences.best >= bound)
