"""Batches and streams write what plain lists of the policies' papers say, drawn at random."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

import zoo
from policy_lists import translate
from random_table import SIZE, Toy
from simulmt.decoding.by_policy import PolicyStream, decode_by
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.policies import POLICIES, EDAtt
from simulmt.decoding.policies.from_file import Replay
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import GREEDY, Search
from simulmt.parts.builders import build_mechanism
from zoo import EOS, PAD

LISTED = POLICIES | {"from_file": Replay}
MECHANISMS = [build_mechanism(zoo.options(name)) for name in ("soft", "sm2", "mma_il")]
LIMITS = [(1, 5), (1, 2), (0, 8), (0, 12), (0, 3), (1, 0), (0, 0)]


def drawn(name: str, layers: int, draw: Random) -> Policy:
    """A policy with options from all of their ranges, the ends included."""
    share = [draw.choice([0.0, 1.0, draw.random(), 0.3 * draw.random()]) for _ in range(3)]
    few, k_min, low = draw.choice([1, 1, 1, 2, 2, 3, 4, 6, 8]), draw.randint(1, 4), min(share[:2])
    k_max, high = k_min + draw.choice([0, 0, 1, 2, 4, 7]), max(share[:2])
    options: dict[str, dict[str, Any]] = {
        "wait_k": {"k": draw.choice([1, few, 12])},
        "hold_n": {"n": draw.choice([0, few])},
        "local_agreement": {"n": draw.randint(1, 8)},
        "adaptive_wait_k": {"k_min": k_min, "k_max": k_max, "rho_min": low, "rho_max": high},
        "align_att": {"f": draw.choice([0, 1, few, 20]), "layer": draw.randint(1, layers)},
        "ed_att": {"a": share[2], "last": min(few, 6), "layer": draw.randint(1, layers)},
        "confidence": {"gamma": share[2]},
        "newest_token": {"threshold": share[2]},
        "retranslation": {},
        "from_file": {"reads": tuple(sorted(draw.choices(range(7), k=draw.choice([0, few]))))},
    }
    return LISTED[name](**options[name])


def streamed(toy: Toy, policy: Policy, tokens: list[int], search: Search) -> Hypothesis:
    stream = PolicyStream(toy, policy, search)
    for word in toy.vocabulary.words(tokens):
        stream.read_word(word)
    return stream.written


def check(name: str, policy: Policy, toy: Toy, rows: list[list[int]], search: Search) -> list[Any]:
    """The translations, once batch and streams have agreed with the lists."""
    source = pad_sequence([*map(torch.tensor, rows)], True, PAD)
    listed = [translate(name, policy, toy, row, search) for row in rows]
    batch = decode_by(policy, toy, source, source != PAD, search)
    for row, found, want in zip(rows, batch, listed, strict=True):
        for one in (found, streamed(toy, policy, row, search)):
            erased = None if one.erased is None else len(one.erased)
            assert (one.tokens, one.delays, erased) == want, f"{policy} {toy.causal} {row}"
    return listed


CASES = [(name, beams) for name in LISTED for beams in {False, drawn(name, 1, Random(0)).beams}]


@pytest.mark.parametrize(("name", "beams"), CASES)
def test_policies_write_what_plain_lists_say(name: str, beams: bool) -> None:
    draw = Random(f"{name} {beams}")
    sentences = early = late = 0
    enough = 4 if beams else 30 if name == "local_agreement" else 8
    while sentences < enough or min(early, late) < 3:
        assert sentences < 60, f"{early} wrote before the end, and {late} at the end"
        layers, (slope, least) = draw.randint(1, 4), draw.choice(LIMITS)
        policy = drawn(name, layers, draw)
        fits = [m for m in MECHANISMS if not policy.demands(m).misfit(layers)]
        mechanism = draw.choice([m for m in fits if m.offline or not beams])
        causal, eos = draw.random() < 0.5 or not mechanism.offline, draw.choice([-99, -3, -3, 0, 2])
        begin, agree = draw.choice([0.4, 0.7, 1.0]), draw.choice([0, 0.5, 0.9, 1, 1])
        seed, limit = draw.randrange(5000), lambda n, slope=slope, least=least: slope * n + least
        toy = Toy(seed, mechanism, causal, layers, eos, begin, agree, limit)
        sizes = draw.choices([0, 1, 5, 9, 12], k=draw.randint(1, 3))
        rows = [[*draw.choices(range(4, SIZE), k=size), EOS] for size in sizes]
        search = Search(draw.randint(2, 4), draw.choice([0, 0.6, 1, 3, 3])) if beams else GREEDY
        for row, (_, delays, _) in zip(rows, check(name, policy, toy, rows, search), strict=True):
            early += any(delay < len(row) for delay in delays)
            late, sentences = late + (len(row) in delays), sentences + 1


@pytest.mark.parametrize("causal", [True, False])
def test_ed_att_writes_nothing_early_where_the_newest_are_all(causal: bool) -> None:
    """With a = 1: whatever the rounding, they have all of the attention."""
    for seed in range(4):
        toy = Toy(seed, MECHANISMS[0], causal, 2, -2, 0.9, 0.5, lambda n: n + 5)
        row = [4, 7, 10, 13, 6, 9, EOS]
        ((_, delays, _),) = check("ed_att", EDAtt(1.0, 6, 1), toy, [row], GREEDY)
        assert {*delays} == {7}
