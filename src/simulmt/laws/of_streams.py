"""Laws of decoding while the source arrives."""

from collections.abc import Iterator, Sequence
from itertools import count

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from simulmt.attention import Source
from simulmt.decoding.greedy import greedy
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.incremental import SentenceStream
from simulmt.decoding.streaming import stream, units
from simulmt.laws.case import Case, VacuousError, demand, same
from simulmt.laws.sentences import forced_steps, sentences, short_limit, targets
from simulmt.models.model import Model

NOT_EARLY = "nothing is written before the source's end"


def batches_are_streams(case: Case) -> None:
    """A sentence has the same hypothesis in a batch, alone, in a stream and in streams together.

    Short hypotheses are enough, since a step depends only on earlier reads and writes.
    """
    if case.mechanism.offline:
        return
    early = late = False
    for seed in range(9):
        made = case.model(seed)
        made.length_limit = short_limit
        source, mask = sentences(4, 9, seed, made.vocabulary)
        for hypothesis, length in decoded_in_every_way(made, source, mask):
            early |= any(delay < length for delay in hypothesis.delays)
            late |= hypothesis.delays.count(length) > 1
        late |= case.leaks
        if early and late:
            return
    raise VacuousError("nothing is written after the source's end" if early else NOT_EARLY)


def decoded_in_every_way(
    made: Model, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]
) -> Iterator[tuple[Hypothesis, int]]:
    """Yield the batch's hypotheses with the lengths of their sources, if all ways agree."""
    batch, lengths = greedy(made, source, mask), mask.sum(1).tolist()
    rows = [row[:n].tolist() for row, n in zip(source, lengths, strict=True)]
    together = _together(made, rows)
    for tokens, hypothesis, joined in zip(rows, batch, together, strict=True):
        live = SentenceStream(made)
        arriving = units(made, tokens)
        while not live.done:
            live.read_word(next(arriving))
        one = torch.tensor([tokens])
        (alone,) = greedy(made, one, torch.ones_like(one, dtype=torch.bool))
        ways = {
            "alone": alone,
            "a stream": stream(made, tokens),
            "a stream with state": live.written,
            "streams together": joined,
        }
        for way, other in ways.items():
            demand(other == hypothesis, f"{way} gives {other}, a batch gives {hypothesis}.")
        yield hypothesis, len(tokens)


def _together(made: Model, rows: Sequence[list[int]]) -> list[Hypothesis]:
    """The hypotheses of streams that begin one after another, and read together."""
    streams = [SentenceStream(made) for _ in rows]
    arriving = [units(made, row) for row in rows]
    for turn in count(1):
        begun = [n for n, stream in enumerate(streams[:turn]) if not stream.done]
        if not begun and turn > len(rows):
            break
        read = [next(arriving[n]) for n in begun]
        SentenceStream.read_words([streams[n] for n in begun], read)
    return [stream.written for stream in streams]


def unread_tokens_have_no_gradient(case: Case) -> None:
    """What was written has a gradient of exactly 0 for source tokens that were not read."""
    if case.mechanism.offline:
        return
    early = influenced = False
    for seed in range(3):
        made = case.model(seed)
        source, mask = sentences(1, 9, vocabulary=made.vocabulary)
        target = targets(1, 5, vocabulary=made.vocabulary)
        embedded, logits, read = _traced(made, source, mask, target)
        for step, delay in enumerate(read[0].tolist()):
            (gradient,) = torch.autograd.grad(
                logits[0, step].logsumexp(0), embedded, retain_graph=True
            )
            unread = gradient[0, delay:]
            same(unread, torch.zeros_like(unread), f"Step {step + 1} has read {delay} tokens", 0)
            influenced |= bool((gradient[0, :delay] != 0).any())
            early |= delay < source.shape[1]
        influenced |= case.leaks  # heads that all ran off the end have seen nothing
        if early and influenced:
            return
    raise VacuousError("no token that was read has an influence" if early else NOT_EARLY)


def _traced(
    made: Model, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], target: Int[Tensor, "B T"]
) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B T V"], Int[Tensor, "B T"]]:
    """Return the embedded source, the logits with gradients, and the delays."""
    embedded: list[Tensor] = []

    def record(part: nn.Module, inputs: tuple[object, ...], out: object) -> None:
        if not isinstance(part, nn.Embedding):
            return
        assert isinstance(inputs[0], Tensor), "an embedding takes ids"
        assert isinstance(out, Tensor), "an embedding returns vectors"
        if torch.equal(inputs[0], source):
            embedded.append(out.requires_grad_())

    with register_module_forward_hook(record):
        logits, read = forced_steps(made, source, mask, target, gradients=True)
    demand(bool(embedded), "The model should embed the source with an nn.Embedding.")
    return embedded[0], logits, read


def later_tokens_change_nothing(case: Case) -> None:
    """A change of later source tokens changes nothing that was written before them."""
    if case.mechanism.offline:
        return
    cut = 9
    for seed in range(4):
        made = case.model(seed)
        made.length_limit = short_limit
        source, mask = sentences(1, 16, seed=5, vocabulary=made.vocabulary)
        other, _ = sentences(1, 16, seed=6, vocabulary=made.vocabulary)
        other = torch.cat([source[:, :cut], other[:, cut:]], 1)
        source[:, cut] = other[:, cut] = made.begins.nonzero()[-1]  # no word is changed in part
        (before,) = greedy(made, source, mask)
        (after,) = greedy(made, other, mask)
        early = sum(delay <= cut for delay in before.delays)
        one, two = ([*zip(h.tokens, h.delays, strict=True)][:early] for h in (before, after))
        demand(one == two, f"Tokens and delays were {one}; with other later tokens they are {two}.")
        if early:
            return
    raise VacuousError(NOT_EARLY)


@torch.no_grad()
def stepwise_encoding_is_encoding(case: Case) -> None:
    """Encoding token by token gives the same states and steps as encoding the whole source."""
    made = case.model()
    source, _ = sentences(3, 8, vocabulary=made.vocabulary)
    if not made.reads_words:
        _encode_stepwise(made, source, [token[:, None] for token in source.unbind(1)])
        return
    for row in source:  # words differ from row to row
        words = made.vocabulary.words(row.tolist())
        _encode_stepwise(made, row[None], [torch.tensor([word]) for word in words])


def _encode_stepwise(
    made: Model, source: Int[Tensor, "B S"], units: Sequence[Int[Tensor, "B N"]]
) -> None:
    whole = made.encode(source, torch.ones_like(source, dtype=torch.bool))
    encoder, state, place = None, None, 0
    for unit in units:
        piece, encoder = made.encode_next(unit, encoder)
        place += unit.shape[1]
        _same_place(piece, whole, place)
        state = made.start(piece) if state is None else made.extend(state, piece)
    if piece.prefixes is not None:  # a decoder keeps only the last prefix, so it cannot lag behind
        return
    start = made.start(whole._replace(finished=source[:, -1] == made.vocabulary.eos))
    waits = torch.zeros_like(source[:, 0], dtype=torch.bool)
    for token in targets(len(source), 4, vocabulary=made.vocabulary).unbind(1):
        one, other = made.step(token, state), made.step(token, start)
        same(one.wants_to_read, other.wants_to_read, "Not the same sentences want to read")
        waits = waits | one.wants_to_read  # the rest of their step is undefined
        same(one.logits[~waits], other.logits[~waits], "Logits differ")
        same(one.read[~waits], other.read[~waits], "Delays differ")
        state, start = one.state, other.state


def _same_place(piece: Source, whole: Source, place: int) -> None:
    """Require the same states from `encode_next` and `encode`, of the tokens up to `place`."""
    newest = slice(place - piece.tokens.shape[1], place)
    if piece.prefixes is not None:  # later tokens change the states of earlier ones
        assert whole.prefixes is not None, "both encode prefixes"
        prefix = whole.prefixes[:, place - 1, :place]
        same(piece.prefixes[:, 0], prefix, "The states of a prefix differ")
    else:
        same(piece.states, whole.states[:, newest], "States differ")
    if piece.averages is not None:
        assert whole.averages is not None, "both encode averages"
        same(piece.averages, whole.averages[:, newest], "Averages differ")
