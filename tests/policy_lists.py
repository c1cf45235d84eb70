"""What the policies write, in plain lists and as their papers say it.

After each source word the model drafts to the end, and the words of the draft are counted that need
not wait. Once the source has ended, all of the draft is written. Of `simulmt.decoding` this uses
nothing but the options of policies and searches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from random_table import SIZE, Toy
from simulmt.decoding.search import Search
from zoo import BOS, EOS, PAD


class Said(NamedTuple):
    """A subword of a draft; (layers, subwords read) attention."""

    token: int
    begins: bool
    probability: float
    confidence: float
    attention: np.ndarray


class Now(NamedTuple):
    """What has been read after a source word, and the model's draft, whose last word may go on."""

    words: int
    subwords: int
    draft: list[list[Said]]


def adaptive_wait_k(o: Any, now: Now, t: int, one: Said) -> bool:
    """True where a word is not likely enough for the lag."""
    lag = now.words - (t - 1)
    if lag < o.k_min or lag >= o.k_max:
        return lag < o.k_min
    fall = (o.rho_max - o.rho_min) * (lag - o.k_min) / (o.k_max - o.k_min)
    return one.begins and one.probability < o.rho_max - fall


def newest(attention: Sequence[float], last: int) -> Fraction:
    """The exact share of the newest subwords."""
    exact = [*map(Fraction, attention)]
    return sum(exact[max(len(exact) - last, 0) :], Fraction()) / sum(exact)


WAITS: dict[str, Callable[[Any, Now, int, Said], bool]] = {
    "wait_k": lambda o, now, t, one: now.words < o.k + t - 1,
    "adaptive_wait_k": adaptive_wait_k,
    "align_att": lambda o, now, t, one: one.attention[o.layer - 1].argmax() >= now.subwords - o.f,
    "ed_att": lambda o, now, t, one: newest(one.attention[o.layer - 1], o.last) >= o.a,
    "confidence": lambda o, now, t, one: now.words < 2 or (one.begins and one.confidence < o.gamma),
    "newest_token": lambda o, now, t, one: one.begins and one.confidence < o.threshold,
    "from_file": lambda o, now, t, one: t > len(o.reads) or now.subwords < o.reads[t - 1],
}
"""True if a policy with options o waits at a subword of the t-th target word."""


def agreed(several: Sequence[Sequence[Any]]) -> int:
    """The number of words in the common beginning of hypotheses."""
    n = 0
    while all(n < len(one) and one[n] == several[0][n] for one in several):
        n += 1
    return n


def allowed(toy: Toy, first: bool) -> list[int]:
    """The tokens that may be written: after whole words the first of the draft begins one."""
    return [
        v for v in range(SIZE) if v not in (PAD, BOS) and (toy.vocabulary.begins[v] or not first)
    ]


def beam(toy: Toy, prefix: list[int], limit: int, written: list[int], search: Search) -> list[int]:
    """The best translation that begins with what is written, by the score of the whole."""

    def following(tokens: list[int]) -> np.ndarray:
        said = toy.says(prefix, [BOS, *tokens], [len(prefix)] * (len(tokens) + 1))
        return said.logits - math.log(np.exp(said.logits).sum())

    total = sum(following(written[:n])[token] for n, token in enumerate(written))
    going, ended = [(total, written)], list[tuple[float, list[int]]]()
    while going and len(ended) < search.beam and len(going[0][1]) <= limit:
        size = len(going[0][1])
        tokens = allowed(toy, size == len(written) > 0) if size < limit else [EOS]
        rows = [(p + following(h), h) for p, h in going]
        found = [(p[v], [*h, v]) for p, h in rows for v in tokens]
        found.sort(key=lambda one: -one[0])
        lp = ((5 + size + 1) / 6) ** search.length_penalty
        ended += [(p / lp, h[:-1]) for p, h in found[: search.beam] if h[-1] == EOS]
        going = [one for one in found if one[1][-1] != EOS][: search.beam]
    return max(ended, key=lambda one: one[0])[1]


def draft(
    toy: Toy, source: list[int], written: list[int], saw: list[int] | None, search: Search
) -> list[Said]:
    """How the translation goes on to its end.

    Args:
        toy: the model.
        source: the subwords read.
        written: those written.
        saw: what was read before each of these; None if the model sees all that is read.
        search: a beam of 1 takes the likeliest subword each time.
    """
    closed = not (toy.causal or toy.mechanism.confident or EOS in source)
    prefix, limit = source + [EOS] * closed, toy.length_limit(len(source))
    best = beam(toy, prefix, limit, written, search) if search.beam > 1 else None
    found: list[Said] = []
    while (size := len(written) + len(found)) < limit:
        seen = [len(prefix)] * (size + 1) if saw is None else saw + [len(prefix)] * (len(found) + 1)
        said = toy.says(prefix, [BOS, *written, *(one.token for one in found)], seen)
        first = bool(written and not found)
        likeliest = max(allowed(toy, first), key=lambda v: said.logits[v])
        token = likeliest if best is None else [*best, EOS][size]
        if token == EOS:
            break
        possible = np.exp(said.logits) * (toy.begins.numpy() if first else 1)
        found.append(
            Said(
                token,
                toy.vocabulary.begins[token] or not found,
                possible[token] / possible.sum(),
                1 / (1 + math.exp(-said.confidence)),
                said.attention.mean(1)[:, : len(source)],
            )
        )
    return found


def translate(
    name: str, o: Any, toy: Toy, source: list[int], search: Search
) -> tuple[list[int], list[int], int | None]:
    """The subwords that a policy writes, how much was read before each, and the words erased.

    Args:
        name: the policy's, as in `policy.name`.
        o: its options.
        toy: the model.
        source: the subwords of a sentence, EOS last.
        search: how drafts are made.
    """
    written: list[list[int]] = []
    shown: list[list[int]] = []
    changed: list[int] = []  # when each of these words was shown
    delays: list[int] = []
    hypotheses: list[list[list[int]]] = []
    erased = words = 0
    for read in range(1, len(source) + 1):
        ended = read == len(source)
        if not ended and not toy.vocabulary.begins[source[read]]:
            continue  # inside a word
        words += not ended
        saw = None if toy.mechanism.offline or name == "newest_token" else delays
        parts: list[list[Said]] = []
        for one in draft(toy, source[:read], [*chain(*written)], saw, search):
            parts = [*parts, [one]] if one.begins else [*parts[:-1], [*parts[-1], one]]
        drafted = [[one.token for one in part] for part in parts]
        if name == "retranslation":
            kept = agreed([shown, drafted])
            erased += len(shown) - kept
            shown, changed = drafted, changed[:kept] + [read] * (len(drafted) - kept)
            continue
        hypotheses.append(written + drafted[:-1])
        now = Now(words, read, parts)
        count = None if ended else finished(name, o, now, len(written), hypotheses)
        written += drafted[:count]
        delays += [read] * len([*chain(*drafted[:count])])
    if name != "retranslation":
        return [*chain(*written)], delays, None
    late = [[delay] * len(word) for delay, word in zip(changed, shown, strict=True)]
    return [*chain(*shown)], [*chain(*late)], erased


def finished(
    name: str, o: Any, now: Now, written: int, hypotheses: Sequence[list[list[int]]]
) -> int:
    """The number of words of a draft that are written after `written` words.

    `hypotheses` are the finished words after each source word, with those written.
    """
    words = now.draft[:-1]
    if name == "hold_n":
        return max(len(words) - o.n, 0)
    if name == "local_agreement":
        return max(agreed(hypotheses[-o.n :]) - written, 0) if len(hypotheses) >= o.n else 0
    for n, word in enumerate(words):
        if any(WAITS[name](o, now, written + n + 1, one) for one in word):
            return n
    return len(words)
