"""The sentences that are shown: typical ones, which show the policy if most sentences do."""

from __future__ import annotations

from dataclasses import replace

from simulmt.analysis.figures.path import typical_places
from simulmt.decoding.instance import Instance


def made(index: int, words: int, wait: int, right: int) -> Instance:
    """A sentence written `wait` words behind the source, with its first words right."""
    source = " ".join(f"s{i}" for i in range(words))
    reference = [f"word{i}" for i in range(words)]
    prediction = [*reference[:right], *["wrong"] * (words - right)]
    delays = tuple(min(i + wait, words) for i in range(words))
    return Instance(index, source, " ".join(reference), " ".join(prediction), delays)


def runaway(index: int) -> Instance:
    """A sentence without an end, which waits for all of its source."""
    text = " ".join(["comomomo"] * 200)
    return Instance(index, "a b c d e f g h i j", "the end", text, (10,) * 200)


USUAL = [made(i, 8 + i % 5, 3, 6) for i in range(15)]


def test_the_sentence_in_the_middle_of_all_traits_comes_first():
    assert typical_places([made(i, 10, 3, i) for i in range(11)])[0] == 5, "quality"
    assert typical_places([made(i, 12, 1 + i, 6) for i in range(9)])[0] == 4, "latency"
    longer = [replace(made(i, 6 + i, 3, 0), prediction="", delays=()) for i in range(9)]
    assert typical_places(longer)[0] == 4, "length"


def test_neither_the_worst_nor_the_longest_is_shown():
    instances = [*USUAL, *map(runaway, range(15, 22))]
    order = typical_places(instances)
    assert sorted(order) == [*range(22)]
    assert {*order[:15]} == {*range(15)}


def test_a_sentence_shows_the_policy_if_most_do():
    whole = [made(i, 10, 10, 6) for i in range(4)]
    assert typical_places([*whole, *USUAL])[0] >= len(whole)
    short = [made(i, 2, 1, 2) for i in range(4)]
    assert typical_places([*short, *USUAL])[0] >= len(short)
