"""Word alignments: their files, symmetrisation, and the measures that use them."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import zoo
from simulmt.alignment.aligner import LONGEST, align_text
from simulmt.alignment.error_rate import error_rate
from simulmt.alignment.links import Gold, form, format_links, known_links, parse_links, read_links
from simulmt.alignment.prediction import LinkKind, accuracies, judge, project
from simulmt.alignment.symmetrise import grow_diag_final_and, intersection
from simulmt.analysis.studies.aer import attention_links
from simulmt.analysis.studies.run_set import LinkSource
from simulmt.analysis.trace import record
from simulmt.data.corpus import oracle_delays
from simulmt.data.encoded import EncodedSplit
from simulmt.data.subwords import Subwords
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.forced import force, stops, strongest, word_weights
from simulmt.decoding.word_map import WordMap
from simulmt.errors import UserError
from simulmt.programs.align import align
from small_runs import configuration
from zoo import BOS

CPU = torch.device("cpu")
SPLIT = verbfinal(3, 0, 0, 60).splits["test"]
GOLD = [known_links(sentence) for sentence in SPLIT.links]


def links(text: str) -> frozenset[tuple[int, int]]:
    return parse_links(text).possible


# ------------------------------------------------------------------------------- links and files


def test_a_line_parses_to_the_links_it_was_written_from():
    rng = random.Random(1)
    for _ in range(50):
        pairs = frozenset((rng.randrange(9), rng.randrange(9)) for _ in range(rng.randrange(12)))
        assert parse_links(format_links(pairs)) == Gold(pairs, pairs)
    assert format_links(links("3-1 0-1 2-0")) == "2-0 0-1 3-1"
    assert parse_links("0-0 1?2") == Gold(links("0-0"), links("0-0 1-2"))


def test_words_are_alike_but_for_case_and_outer_punctuation():
    words = ["Bench.", "„Bank“", ".", "...", "it's", "Zaun,", "$5", "3.5%"]
    assert [*map(form, words)] == ["bench", "bank", ".", "...", "it's", "zaun", "$5", "3.5"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-0\n", "has 1 lines, the text 2 sentence pairs"),
        ("0-0\n1:0\n", "line 2: '1:0' is not a link such as 0-1"),
        ("0-0\n0--1\n", "line 2: '0--1' is not a link"),
        ("0-0\n2-0\n", "line 2: 2-0 in a pair of 2 and 3 words.*counted from 0"),
        ("0-0\n1?3\n", "line 2: 1-3 in a pair of 2 and 3 words"),
    ],
)
def test_damaged_files_are_refused_with_the_line(tmp_path, text, message):
    (tmp_path / "links").write_text(text)
    with pytest.raises(UserError, match=message):
        read_links(tmp_path / "links", ["a", "a b"], ["c", "c d e"])
    with pytest.raises(UserError, match="nowhere cannot be read"):
        read_links(tmp_path / "nowhere", [], [])


def test_known_links_are_sure_where_there_is_one_and_fit_the_needs():
    assert known_links([(1,), (), (2, 4)]) == Gold(links("0-0"), links("0-0 1-2 3-2"))
    for sentence, gold, needs in zip(SPLIT.links, GOLD, SPLIT.needs, strict=True):
        assert gold.sure <= gold.possible
        last = [max([i + 1 for i, k in gold.possible if k == j]) for j in range(len(sentence))]
        assert last == needs


# ------------------------------------------------------------------------------- both directions


def test_grow_diag_final_and_by_hand():
    forward, backward = links("0-0 1-1 2-1 4-4 6-2"), links("0-0 1-2 4-3 5-5")
    # 1-1 touches 0-0; 1-2 and 2-1 then touch 1-1 and link a new word. 4-4, 5-5 and 4-3 touch no
    # link. The final step adds 4-4, then 5-5, but neither 6-2 nor 4-3.
    expected = links("0-0 1-1 1-2 2-1 4-4 5-5")
    assert grow_diag_final_and(forward, backward) == expected
    assert intersection(forward, backward) == links("0-0")
    # a near link is not added if both of its words have a link
    square = links("0-0 1-1")
    assert grow_diag_final_and(square | links("0-1"), square) == square


def test_grow_diag_final_and_lies_between_intersection_and_union():
    rng = random.Random(2)
    for _ in range(100):
        forward, backward = (
            frozenset((rng.randrange(6), rng.randrange(6)) for _ in range(8)) for _ in range(2)
        )
        grown = grow_diag_final_and(forward, backward)
        assert forward & backward <= grown <= forward | backward
        for i, j in (forward | backward) - grown:  # no link of two unlinked words is left
            assert i in {a for a, _ in grown} or j in {b for _, b in grown}
        assert grow_diag_final_and(forward, forward) == forward


# ------------------------------------------------------------------------------- error rate


def test_error_rate_by_hand():
    gold = [Gold(links("0-0 1-1"), links("0-0 1-1 1-2")), Gold(links("0-0"), links("0-0"))]
    alignments = [links("0-0 1-2 2-2"), links("")]
    # |A| = 3, |S| = 3, |A∩S| = 1, |A∩P| = 2
    assert error_rate(alignments, gold) == (1 - 3 / 6, 2 / 3, 1 / 3, 3)
    assert error_rate([], []) == (None, None, None, 0)
    assert error_rate([links(""), links("")], gold) == (1, None, 0, 0)


def test_the_gold_standard_makes_no_error():
    for choose in (min, max):  # any link of a word with several links will do
        one_each = [
            frozenset((choose(i for i, k in g.possible if k == j), j) for _, j in g.possible)
            for g in GOLD
        ]
        assert error_rate(one_each, GOLD)[:3] == (0, 1, 1)
    assert error_rate([g.possible for g in GOLD], GOLD).aer == 0


# ------------------------------------------------------------------------------- absent, present


def test_judging_by_hand():
    reference, theirs = ["the", "man", "buys", "a", "hat", "today"], links("0-0 1-1 5-2 3-3 4-4")
    output, ours = (
        ["the", "man", "sells", "The", "hat", "today", "oh"],
        links("0-0 1-1 2-2 5-2 3-3 4-4"),
    )
    counts = judge(output, [1, 1, 3, 3, 5, 6, 6], ours, reference, theirs)
    assert counts[LinkKind.ABSENT].tolist() == [
        3,
        1,
    ]  # man; sells, the last of whose words is unread;
    assert counts[LinkKind.PRESENT].tolist() == [
        2,
        2,
    ]  # The, another word than a; present: the, hat
    assert counts[LinkKind.UNLINKED].tolist() == [
        2,
        1,
    ]  # today has no link in the reference, either
    np.testing.assert_allclose(accuracies(counts), [100 / 3, 100, 50])
    assert np.isnan(accuracies(np.zeros((3, 2), np.int64))).all()


def test_a_reference_word_makes_one_word_right():
    counts = judge(["no", "no", "no"], [1, 1, 1], links("0-0 0-1 0-2"), ["no"], links("0-0"))
    assert counts[LinkKind.PRESENT].tolist() == [3, 1]


def test_the_oracle_writes_no_absent_word():
    for reference, gold, needs in zip(SPLIT.targets, GOLD, SPLIT.needs, strict=True):
        words = reference.split()
        counts = [
            judge(words, delays, gold.possible, words, gold.possible).tolist()
            for delays in (oracle_delays(needs), [0] * len(words))
        ]
        all_right = [len(words), len(words)]
        assert counts == [[[0, 0], all_right, [0, 0]], [all_right, [0, 0], [0, 0]]]


def test_projecting_by_hand():
    reference, known = ["the", "man", "buys", "a", "hat"], links("0-0 1-1 4-2 2-3 3-3 3-4")
    for output, expected in (
        ("the man buys a hat", known),
        ("The man sells a hat", known),  # at its place
        ("the man a hat", links("0-0 1-1 2-2 3-2 3-3")),
        (
            "oh the man buys the new hat",
            links("0-1 1-2 4-3 2-4 3-4 3-6"),
        ),  # "new" stands for no word
        ("", links("")),
    ):
        assert project(output.split(), reference, known) == expected, output


# ------------------------------------------------------------------------------- attention


def test_subwords_become_words():
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.4, 0.0], [0.0, 0.2, 0.2, 0.6]])
    merged = word_weights(weights.astype(np.float32), WordMap([1, 1, 2, 3]), WordMap([1, 1, 2]))
    # rounding to float32
    np.testing.assert_allclose(merged, [[0.45, 0.35, 0.2], [0.2, 0.2, 0.6]], atol=1e-7)
    assert strongest(merged) == links("0-0")  # EOS is no word
    assert strongest(np.zeros((2, 3))) == strongest(np.zeros((0, 3))) == frozenset()
    assert stops(
        np.array([1, 2, 4, 3, 0]), WordMap([1, 1, 2, 3]), WordMap([1, 1, 2, 3, 4])
    ) == links("0-0 1-2")


@pytest.mark.parametrize("name", ["mma_il", "mma_h", "milk-leaky", "soft", "wait_k"])
@pytest.mark.parametrize("kind", ["transformer", "luong"])
def test_forcing_what_a_model_writes_shows_where_it_looked(kind, name):
    model = zoo.model(zoo.MECHANISMS[name], kind=kind)
    source, mask = zoo.sentences(3, 9)
    records = [record(model, ids[m].tolist(), CPU) for ids, m in zip(source, mask, strict=True)]
    written = [found.hypothesis.tokens for found in records]
    sources = [s[m].tolist()[:-1] for s, m in zip(source, mask, strict=True)]
    batch = EncodedSplit.of(sources, written, zoo.SPECIAL).batch(range(3))
    forced = force(
        model,
        batch.source,
        batch.source_mask,
        batch.target_input,
        batch.target,
        batch.target_mask,
    )
    assert batch.target_input[:, 0].eq(BOS).all()
    for found, row in zip(records, forced, strict=True):
        T = len(found.hypothesis.tokens)
        # weights come back in float32
        np.testing.assert_allclose(row.weights[:T], found.weights, atol=1e-6)
        assert row.positions[:T].tolist() == found.hypothesis.positions


def test_links_of_attention_do_not_depend_on_batches():
    subwords = Subwords.train([*SPLIT.sources, *SPLIT.targets], 120)
    model = zoo.model(zoo.MECHANISMS["mma_il"], vocabulary=subwords.vocabulary)
    batch = EncodedSplit.encode(SPLIT, subwords).batch
    together = attention_links(model, subwords, [batch([5, 3, 1, 0, 2, 4])], CPU)
    assert together == attention_links(model, subwords, [batch([i]) for i in range(6)], CPU)
    layers = [LinkSource("attention", layer, 0) for layer in (0, 1, 2)]
    heads = [LinkSource("position", layer, head) for layer in (1, 2) for head in (1, 2, 3, 4)]
    assert [*together] == layers + heads
    for found in together.values():
        sizes = [(len(SPLIT.sources[n].split()), len(SPLIT.targets[n].split())) for n in range(6)]
        for one, (source, target) in zip(found, sizes, strict=True):
            assert all(i < source and j < target for i, j in one)
            assert len({j for _, j in one}) == len(one)  # one link a word, at most


# ------------------------------------------------------------------------------- the aligner


@pytest.fixture
def diagonal(monkeypatch):
    """An aligner in place of eflomal: word n is linked to word n."""

    class Aligner:
        def align(self, sources, targets, forward, backward):
            rows = [range(min(len(s.split()), len(t.split())))
                    for s, t in zip(sources, targets, strict=True)]  # fmt: skip
            text = "".join(" ".join(f"{i}-{i}" for i in row) + "\n" for row in rows)
            Path(forward).write_text(text)
            Path(backward).write_text(text if len(sources) != 13 else "")

    module = ModuleType("eflomal")
    module.Aligner = Aligner
    monkeypatch.setitem(sys.modules, "eflomal", module)


def test_empty_sentences_have_no_links(diagonal):
    all_links = align_text(["a b", "", "c", "d"], ["x y z", "x", " ", "x"])
    assert [*map(format_links, all_links)] == ["0-0 1-1", "", "", "0-0"]
    assert align_text([], []) == []
    first_links = align_text(["a b", "", "c", "d"], ["x y z", "x", "x", "x"], wanted=2)
    assert [*map(format_links, first_links)] == ["0-0 1-1", ""]
    assert align_text([""], ["a"]) == [frozenset()]


def test_failures_of_the_aligner_are_named(diagonal, monkeypatch):
    with pytest.raises(UserError, match=f"begins 'b b .* has 1,024 words.*at most {LONGEST:,}"):
        align_text(["a", "a"], ["b", "b " * 1024])
    with pytest.raises(UserError, match="symmetrise is 'both'; choose one of grow"):
        align_text(["a"], ["b"], "both")
    with pytest.raises(UserError, match="eflomal failed on 13 sentence pairs"):
        align_text(["a"] * 13, ["b"] * 13)
    monkeypatch.setitem(sys.modules, "eflomal", None)
    with pytest.raises(UserError, match=r'needs a package.*pip install "simulmt\[align\]"'):
        align_text(["a"], ["b"])


def test_the_program_writes_a_line_for_each_pair(diagonal, tmp_path, capsys):
    (tmp_path / "a").write_text("Ein Hut\n\nZwei\n")
    (tmp_path / "b").write_text("a hat .\nx\ntwo hats\n")
    files = [f"source={tmp_path / 'a'}", f"target={tmp_path / 'b'}"]
    align(configuration("align", *files))
    assert capsys.readouterr().out == "0-0 1-1\n\n0-0\n"
    align(configuration("align", *files, f"to={tmp_path / 'links'}"))
    assert (tmp_path / "links").read_text() == "0-0 1-1\n\n0-0\n"
    sizes = ["data.train=3", "data.valid=0", "data.test=5"]
    align(configuration("align", "data=verbfinal", *sizes, f"to={tmp_path / 'preset'}"))
    assert len((tmp_path / "preset").read_text().splitlines()) == 5


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([], "source is None, target None.*give both files, or data=PRESET"),
        (["source=a"], "source is a, target None"),
        (["source=a", "target=b", "data=verbfinal"], "data verbfinal; give both files, or data"),
        (["source=a", "target=b", "symmetrise=union"], "symmetrise is 'union'; choose one of"),
        (["source=a", "target=nowhere"], "nowhere cannot be read"),
        (["source=a", "target=b"], "a has 3 lines but b has 2"),
        (["source=a", "target=a", "to=."], "cannot be written .Is a directory"),
        (["source=nowhere", "target=a", "to=a/links"], "a cannot be written .Not a directory"),
        (
            ["data=verbfinal", "data.train=-1", "split=dev"],
            "split is 'dev'; .*'train', 'valid' or 'test'",
        ),
    ],
)
def test_the_program_refuses(diagonal, tmp_path, monkeypatch, overrides, message):
    monkeypatch.chdir(tmp_path)
    Path("a").write_text("x\ny\nz\n")
    Path("b").write_text("x\ny\n")
    with pytest.raises(UserError, match=message):
        align(configuration("align", *overrides))


@pytest.mark.slow
def test_eflomal_finds_most_links():
    pytest.importorskip("eflomal", reason='needs pip install "simulmt[align]"')
    split = verbfinal(1, 1000, 0, 0).splits["train"]
    gold = [known_links(sentence) for sentence in split.links]
    for name, least in (("grow-diag-final-and", 0.7), ("intersection", 0.7)):
        rate = error_rate(align_text(split.sources, split.targets, name), gold)
        assert rate.precision > least  # eflomal samples: about 0.85 and 0.95 here
        assert rate.recall > 0.7
