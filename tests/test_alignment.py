"""Word alignments: their files, symmetrisation, and the measures that use them."""

import random
import re
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import zoo
from simulmt.alignment.aligner import align_text
from simulmt.alignment.error_rate import error_rate
from simulmt.alignment.links import (
    Gold,
    bare_word,
    format_links,
    known_links,
    parse_links,
    read_links,
)
from simulmt.alignment.prediction import LinkKind, accuracies, judge, project
from simulmt.alignment.symmetrise import grow_diag_final_and, intersection
from simulmt.analysis.figures.trace import trace_tokens
from simulmt.analysis.studies.forced import LinkSource, attention_links
from simulmt.data.encoded import EncodedSplit
from simulmt.data.subwords import Subwords
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.forced import force, stops, strongest, word_weights
from simulmt.decoding.word_map import WordMap
from simulmt.errors import UserError
from simulmt.programs import align as program
from simulmt.programs.align import align
from simulmt.scoring.scores import Figures
from simulmt.system.disk import read_record
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
    assert [*map(bare_word, words)] == ["bench", "bank", ".", "...", "it's", "zaun", "$5", "3.5"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0-0\n", "1 lines, the text 2"),
        ("0-0\n1:0\n", "line 2: '1:0'"),
        ("0-0\n0--1\n", "line 2: '0--1'"),
        ("0-0\n2-0\n", "line 2: 2-0"),
        ("0-0\n1?3\n", "line 2: 1-3"),
    ],
)
def test_an_error_in_a_file_names_its_line(tmp_path, text, value):
    (tmp_path / "links").write_text(text)
    with pytest.raises(UserError, match=re.escape(value)):
        read_links(tmp_path / "links", ["a", "a b"], ["c", "c d e"])


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
        draw = ((rng.randrange(6), rng.randrange(6)) for _ in range(16))
        forward, backward = frozenset(islice(draw, 8)), frozenset(draw)
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
    assert [*error_rate(alignments, gold).values()] == [1 - 3 / 6, 2 / 3, 1 / 3, 3]
    assert [*error_rate([], []).values()] == [None, None, None, 0]
    assert [*error_rate([links(""), links("")], gold).values()] == [1, None, 0, 0]


# ------------------------------------------------------------------------------- absent, present


def test_judging_by_hand():
    reference, theirs = ["the", "man", "buys", "a", "hat", "today"], links("0-0 1-1 5-2 3-3 4-4")
    output = ["the", "man", "sells", "The", "hat", "today", "oh"]
    counts = judge(
        output, [1, 1, 3, 3, 5, 6, 6], links("0-0 1-1 2-2 5-2 3-3 4-4"), reference, theirs
    )
    # absent: man; sells, the last of whose words is unread; The, another word than a
    assert counts[LinkKind.ABSENT].tolist() == [3, 1]
    assert counts[LinkKind.PRESENT].tolist() == [2, 2]  # the, hat
    assert counts[LinkKind.UNLINKED].tolist() == [2, 1]  # today has none in the reference, too
    np.testing.assert_allclose(accuracies(counts), [100 / 3, 100, 50])
    assert np.isnan(accuracies(np.zeros((3, 2), np.int64))).all()
    counts = judge(["no", "no", "no"], [1, 1, 1], links("0-0 0-1 0-2"), ["no"], links("0-0"))
    assert counts[LinkKind.PRESENT].tolist() == [3, 1], "a reference word makes one word right"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("the man buys a hat", "0-0 1-1 4-2 2-3 3-3 3-4"),
        ("The man sells a hat", "0-0 1-1 4-2 2-3 3-3 3-4"),  # at its place
        ("the man a hat", "0-0 1-1 2-2 3-2 3-3"),
        ("oh the man buys the new hat", "0-1 1-2 4-3 2-4 3-4 3-6"),  # "new" stands for no word
        ("", ""),
    ],
)
def test_projecting_by_hand(output, expected):
    reference, known = ["the", "man", "buys", "a", "hat"], links("0-0 1-1 4-2 2-3 3-3 3-4")
    assert project(output.split(), reference, known) == links(expected)


# ------------------------------------------------------------------------------- attention


def test_subwords_become_words():
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.4, 0.0], [0.0, 0.2, 0.2, 0.6]])
    merged = word_weights(weights.astype(np.float32), WordMap([1, 1, 2, 3]), WordMap([1, 1, 2]))
    # rounding to float32
    np.testing.assert_allclose(merged, [[0.45, 0.35, 0.2], [0.2, 0.2, 0.6]], atol=1e-7)
    assert strongest(merged) == links("0-0")  # EOS is no word
    gap = word_weights(weights, WordMap([1, 1, 3, 4]), WordMap([1, 1, 2]))  # a word without any
    np.testing.assert_array_equal(gap[:, 1], 0)
    np.testing.assert_allclose(gap[:, [0, 2, 3]], merged, atol=1e-7)
    assert strongest(np.zeros((2, 3))) == strongest(np.zeros((0, 3))) == frozenset()
    assert stops(
        np.array([1, 2, 4, 3, 0]), WordMap([1, 1, 2, 3]), WordMap([1, 1, 2, 3, 4])
    ) == links("0-0 1-2")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("transformer", name) for name in ("mma_il", "milk-leaky", "soft", "wait_k")),
        *(("luong", name) for name in ("mma_h", "wait_k")),
    ],
)
def test_forcing_what_a_model_writes_shows_where_it_looked(kind, name):
    model = zoo.model(zoo.MECHANISMS[name], kind=kind)
    source, mask = zoo.sentences(3, 9)
    sources = [ids[m].tolist() for ids, m in zip(source, mask, strict=True)]
    records = [trace_tokens(model, ids, CPU) for ids in sources]
    written = [hypothesis.tokens for hypothesis, *_ in records]
    batch = EncodedSplit.of([ids[:-1] for ids in sources], written, zoo.SPECIAL).batch(range(3))
    target = batch.target_input, batch.target, batch.target_mask
    forced = force(model, batch.source, batch.source_mask, *target)
    assert batch.target_input[:, 0].eq(BOS).all()
    for (hypothesis, _, weights), row in zip(records, forced, strict=True):
        T = len(hypothesis.tokens)
        # weights come back in float32
        np.testing.assert_allclose(row.weights[:T], weights, atol=1e-6)
        assert row.positions[:T].tolist() == hypothesis.positions
        assert row.read[:T].tolist() == hypothesis.delays


def test_links_of_attention_do_not_depend_on_batches():
    subwords = Subwords.train([*SPLIT.sources, *SPLIT.targets], 120)
    model = zoo.model(zoo.MECHANISMS["mma_il"], vocabulary=subwords.vocabulary)
    batch = EncodedSplit.encode(SPLIT, subwords).batch
    together = attention_links(model, subwords, SPLIT, [batch([5, 3, 1, 0, 2, 4])])
    assert together == attention_links(model, subwords, SPLIT, [batch([i]) for i in range(6)])
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
            pairs = [(s.split(), t.split()) for s, t in zip(sources, targets, strict=True)]
            rows = (range(min(map(len, pair))) for pair in pairs)
            text = "".join(" ".join(f"{i}-{i}" for i in row) + "\n" for row in rows)
            Path(forward).write_text(text)
            Path(backward).write_text(text if len(sources) != 13 else "")

    module = ModuleType("eflomal")
    module.Aligner = Aligner
    monkeypatch.setitem(sys.modules, "eflomal", module)


def test_empty_sentences_have_no_links(diagonal):
    texts = ["a b", "", "c", "d"], ["x y z", "x", " ", "x"]
    assert [*map(format_links, align_text(*texts))] == ["0-0 1-1", "", "", "0-0"]
    assert [*map(format_links, align_text(*texts, wanted=2))] == ["0-0 1-1", ""]
    assert align_text([""], ["a"]) == [frozenset()]


def test_failures_of_the_aligner_are_named(diagonal, monkeypatch):
    for texts, options, value in (
        ((["a", "a"], ["b", "b " * 1024]), (), "1,024.*1,023"),
        ((["a"], ["b"]), ("both",), "symmetrise is 'both'"),
        ((["a"] * 13, ["b"] * 13), (), "13 sentence pairs"),
    ):
        with pytest.raises(UserError, match=value):
            align_text(*texts, *options)
    monkeypatch.setitem(sys.modules, "eflomal", None)
    with pytest.raises(UserError, match=r"simulmt\[align\]"):
        align_text(["a"], ["b"])


def test_the_program_writes_a_line_for_each_pair(diagonal, tmp_path, capsys):
    (tmp_path / "a").write_text("Ein Hut\n\nZwei\n")
    (tmp_path / "b").write_text("a hat .\nx\ntwo hats\n")
    files = [f"source={tmp_path / 'a'}", f"target={tmp_path / 'b'}"]
    align(configuration("align", *files))
    assert capsys.readouterr().out == "0-0 1-1\n\n0-0\n"
    data = ["data=verbfinal", "data.train=3", "data.valid=0", "data.test=5"]
    align(configuration("align", *data, f"to={tmp_path / 'preset'}"))
    assert len((tmp_path / "preset").read_text().splitlines()) == 5


def test_a_split_is_aligned_together_with_the_training_text(tmp_path, monkeypatch):
    given = list[tuple[int, int, int]]()

    def aligned(sources, targets, _, wanted):
        given.append((len(sources), len(targets), wanted))
        return [frozenset()] * wanted

    monkeypatch.setattr(program, "align_text", aligned)
    monkeypatch.setattr(program, "check_installed", lambda: None)
    data = ["data=verbfinal", "data.train=3", "data.valid=0", "data.test=5"]
    for split in ("test", "train"):
        align(configuration("align", *data, f"to={tmp_path / 'links'}", f"split={split}"))
    assert given == [(8, 8, 5), (3, 3, 3)]


def test_the_program_measures_links_that_it_made_or_was_given(diagonal, tmp_path, capsys):
    (tmp_path / "a").write_text("ein zwei drei\n")
    (tmp_path / "b").write_text("three two one\n")
    (tmp_path / "links").write_text("2-0 1-1 0?2\n")
    files = [f"source={tmp_path / 'a'}", f"target={tmp_path / 'b'}"]
    asked = f"anticipation={tmp_path / 'rates.json'}"
    align(configuration("align", *files, f"links={tmp_path / 'links'}", asked))
    rates = read_record(tmp_path / "rates.json", Figures)
    assert (*rates,) == ("AR1", "AR3", "AR5", "AR7", "AR9")
    # "three" needs word 3, where wait-1 has read 1 word and wait-3 has read 3
    assert [rate.value for rate in rates.values()] == [pytest.approx(100 / 3), 0, 0, 0, 0]
    assert capsys.readouterr().out.startswith(" 33.33%  AR1|a:file|l:possible|of:reference|u:word")
    align(configuration("align", *files, f"to={tmp_path / 'made'}", asked))
    made = read_record(tmp_path / "rates.json", Figures)
    assert made["AR1"].value == 0
    assert "|a:eflomal:grow-diag-final-and|" in made["AR1"].signature
    for words in ([f"to={tmp_path / 'links'}", asked], []):
        with pytest.raises(UserError, match=r"are measured, not written: give anticipation=FILE"):
            align(configuration("align", *files, f"links={tmp_path / 'links'}", *words))
    for side in ("ein", "one"):
        for name in ("train", "dev", "test"):
            (tmp_path / f"{name}.{side}").write_text(f"{side}\n")
    data = ["data=text", f"data.root={tmp_path}", "data.source=ein", "data.target=one"]
    align(configuration("align", *data, "data.characters=[source,target]", asked))
    assert "|u:char|" in read_record(tmp_path / "rates.json", Figures)["AR1"].signature


@pytest.mark.parametrize(
    ("overrides", "values"),
    [
        ("source=a", "source=a, target=None"),
        ("source=a target=b data=verbfinal", "data=verbfinal"),
        ("source=a target=b", r"3 lines .*b has 2"),
        ("data=verbfinal data.train=-1 split=dev", r"split is 'dev'.*'valid'"),
    ],
)
def test_wrong_options_of_the_program(diagonal, tmp_path, monkeypatch, overrides, values):
    monkeypatch.chdir(tmp_path)
    Path("a").write_text("x\ny\nz\n")
    Path("b").write_text("x\ny\n")
    with pytest.raises(UserError, match=values):
        align(configuration("align", *overrides.split()))


@pytest.mark.slow
def test_eflomal_finds_most_links():
    pytest.importorskip("eflomal", reason='needs pip install "simulmt[align]"')
    split = verbfinal(1, 1000, 0, 0).splits["train"]
    gold = [known_links(sentence) for sentence in split.links]
    for name in ("grow-diag-final-and", "intersection"):
        rate = error_rate(align_text(split.sources, split.targets, name), gold)
        assert min(rate["precision"], rate["recall"]) > 0.7  # eflomal samples: about 0.85 here


def test_a_frequent_word_of_a_long_sentence_is_projected_too():
    """`difflib` leaves out words that are frequent in texts of 200 words, unless told not to."""
    words = ["the", "a"] * 150
    known = frozenset((n, n) for n in range(300))
    assert project(words[1:], words, known) == {(n + 1, n) for n in range(299)}
