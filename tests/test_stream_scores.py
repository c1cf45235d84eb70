"""Scores of documents: against published figures, OmniSTEval and the formulas in plain loops."""

from __future__ import annotations

import json
import math
import random
from statistics import mean

import pytest

from golden import golden_lines, golden_text, needs_golden
from simulmt.decoding.stream_instance import Boundary, StreamInstance
from simulmt.files.instances import read_streams, write_streams
from simulmt.scoring.conventions import STREAM_CONVENTIONS
from simulmt.scoring.degeneracy import OMNISTEVAL
from simulmt.scoring.reference_document import Segment
from simulmt.scoring.resegment import levenshtein, soft
from simulmt.scoring.score import UnitDelays, latencies
from simulmt.scoring.stream_latency import streaming_latency
from simulmt.scoring.stream_score import boundary_scores, incremental, resegment, score_streams

TOLERANCE = 1e-6  # float64 sums in another order
PRINTED = 5e-5 * 1.01  # OmniSTEval prints four digits
PUBLISHED = {
    1: (0.619822, 1.915113, 3.320677, 9.769024),
    5: (0.777423, 4.490887, 5.857594, 10.570723),
    10: (0.882852, 7.008235, 10.155788, 15.121045),
}
"""AP, AL and DAL with s = .95, and DAL with s = 1, of wait-k on the TED talks of 2010."""


def cut(counts, lengths, delays):
    """Segments with so many words of the translation and of the source each."""
    rows, start, first, end = [], 0, 0, sum(lengths)
    for count, length in zip(counts, lengths, strict=True):
        own = [delay - start for delay in delays[first : first + count]]
        rows.append(UnitDelays(own, length, 0, end - start))
        start, first = start + length, first + count
    assert first == len(delays)
    return rows


@pytest.fixture(scope="module", params=PUBLISHED)
def waited(request):
    """k, and the words of the published wait-k stream with their delays."""
    k, read, delays = request.param, 0, []
    for action in golden_text(f"stream_level/{k}.RW").split():
        read += action == "R"
        delays += [read] * (action == "W")
    return k, golden_text(f"stream_level/{k}.orig_h").split(), delays


@needs_golden
def test_streaming_latency_equals_the_published_figures(waited):
    k, _, delays = waited
    lengths = [len(line.split()) for line in golden_lines("stream_level/norm.iwslt17.dev2010.de")]
    counts = [len(line.split()) for line in golden_lines(f"stream_level/{k}.reseg_h")]
    rows = cut(counts, lengths, delays)
    ours = [*streaming_latency(rows).values(), streaming_latency(rows, s=1)["DAL"]]
    assert ours == pytest.approx(PUBLISHED[k], abs=TOLERANCE)


@needs_golden
@pytest.mark.slow
def test_our_segmenter_is_near_the_published_one(waited):
    """Theirs is mwerSegmenter; a tenth of a word is what segmenters differ by."""
    k, words, delays = waited
    texts = golden_lines("stream_level/iwslt17.dev2010.prepro.en")
    lengths = [len(line.split()) for line in golden_lines("stream_level/norm.iwslt17.dev2010.de")]
    places = levenshtein(words, texts)
    rows = cut([places.count(n) for n in range(len(texts))], lengths, delays)
    assert [*streaming_latency(rows).values()] == pytest.approx(PUBLISHED[k][:3], abs=0.1)


def streaming_by_loops(starts, lengths, delays, s):
    """The three equations as they stand; delays of the whole stream, a list for each segment."""
    ap = al = dal = 0.0
    before, gamma_before = -math.inf, math.nan
    for n, (start, x, G) in enumerate(zip(starts, lengths, delays, strict=True)):
        y = len(G)
        g = [delay - start for delay in G]
        gamma = y / x if x else math.inf
        if y and x:
            ap += sum(g) / (x * y)
            tau = next((t for t in range(1, y + 1) if g[t - 1] >= x), y)
            al += sum(g[t - 1] - (t - 1) / gamma for t in range(1, tau + 1)) / tau
        written = []
        for t in range(1, y + 1):
            rate = gamma_before if t == 1 and n else gamma
            if before == -math.inf:
                before = G[t - 1]
            elif rate:
                before = max(G[t - 1], before + s / rate)
            written.append(before)
        if y and x:
            dal += sum(w - start - t / gamma for t, w in enumerate(written)) / y
        gamma_before = gamma if y else 0
    return [total / len(starts) for total in (ap, al, dal)]


def random_document(draw, segments):
    lengths = [draw.randrange(5) for _ in range(segments)]
    counts = [draw.randrange(5) for _ in range(segments)]
    delays = sorted(draw.randint(0, sum(lengths)) for _ in range(sum(counts)))
    return counts, lengths, delays


@pytest.mark.parametrize("s", [0.95, 1, 0])
def test_streaming_latency_equals_plain_loops(s):
    draw = random.Random(1)
    for _ in range(300):
        counts, lengths, delays = random_document(draw, draw.randint(1, 6))
        starts = [sum(lengths[:n]) for n in range(len(lengths))]
        ends = [sum(counts[: n + 1]) for n in range(len(counts))]
        parts = [delays[b - c : b] for b, c in zip(ends, counts, strict=True)]
        found = streaming_latency(cut(counts, lengths, delays), s)
        assert [*found.values()] == pytest.approx(
            streaming_by_loops(starts, lengths, parts, s), abs=TOLERANCE
        )


def pair(name, draw, segments=4, measured=True, empty=False):
    """A random document of words a to e, and its translation."""
    parts, start = [], 0
    for _ in range(segments):
        text = " ".join(draw.choices("abcde.", k=draw.randrange(5)))
        parts.append(Segment(text, start, length := draw.randrange(6)))
        start += length
    words = [] if empty else [w for part in parts for w in part.text.split() if draw.random() < 0.8]
    delays = tuple(sorted(draw.randint(0, start) for _ in words))
    spent = sorted(draw.random() * 9 for _ in words)
    elapsed = tuple(d + t for d, t in zip(delays, spent, strict=True)) if measured else ()
    return parts, StreamInstance(name, " ".join(words), delays, elapsed)


def long_by_loops(pieces, aware):
    """LongYAAL, LongAL, LongLAAL, LongAP and LongDAL of segments, as OmniSTEval defines them."""
    found = {name: [] for name in ("YAAL", "AL", "LAAL", "AP", "DAL")}
    for piece in pieces:
        d, x, reference, end = piece.elapsed if aware else piece.delays
        y = len(d)
        if not d or not x:
            continue

        def lag(count, pace, last=y, d=d, x=x):
            return sum(d[i] - i * x / pace for i in range(last)) / count

        first = next((i for i in range(y) if d[i] >= end), y)
        if first:
            found["YAAL"].append(lag(first, max(y, reference), first))
        tau = next((i + 1 for i in range(y) if d[i] >= x), y)
        found["AL"].append(lag(tau, reference, tau))
        found["LAAL"].append(lag(tau, max(y, reference), tau))
        found["AP"].append(sum(d) / (x * reference))
        written = [d[0]]
        for delay in d[1:]:
            written.append(max(delay, written[-1] + x / y))
        found["DAL"].append(sum(w - i * x / y for i, w in enumerate(written)) / y)
    return {name: mean(values) if values else None for name, values in found.items()}


def near(value):
    return None if value is None else pytest.approx(value, abs=TOLERANCE)


@pytest.mark.parametrize("seed", range(8))
def test_long_latencies_and_streamlaal_equal_plain_loops(seed):
    draw = random.Random(seed)
    pairs = [pair(f"d{n}", draw, empty=n == 1) for n in range(seed % 3 + 1)]
    figures = score_streams(pairs)
    pieces = [p for each in pairs for p in resegment(each, lambda w, r: soft(w, r, whole))]
    ours = [p for each in pairs for p in resegment(each, levenshtein)]
    for aware, ending in ((False, ""), (True, "_ca")):
        expected = long_by_loops(pieces, aware)
        for name, value in expected.items():
            assert figures["longyaal"][f"Long{name}{ending}"].value == near(value), name
        laal = long_by_loops(ours, aware)["LAAL"]
        assert figures["streamlaal"][f"StreamLAAL{ending}"].value == near(laal)


def whole(word):
    return [word]


def test_streaming_is_a_mean_over_documents():
    draw = random.Random(3)
    pairs = [pair(f"d{n}", draw, segments=n + 2, measured=False) for n in range(3)]
    of_all = score_streams(pairs)["streaming"]
    of_each = [score_streams([one])["streaming"] for one in pairs]
    for name in ("AP", "AL", "DAL"):
        assert of_all[name].value == near(mean(one[name].value for one in of_each))


def test_every_score_says_how_it_was_counted():
    figures = score_streams([pair("d", random.Random(4))], s=0.85)
    assert [*figures] == [*STREAM_CONVENTIONS]
    assert figures["streaming"]["DAL"].signature.startswith(
        "DAL|g:hyp|seg:levenshtein|u:word|clip:no|s:0.85|mean:document|eos:no|v:"
    )
    assert "|seg:levenshtein|" in figures["streamlaal"]["StreamLAAL"].signature
    for name in figures["longyaal"]:
        signature = figures["longyaal"][name].signature
        assert ("d:ca|fix:yes" in signature) == name.endswith("_ca")
        assert "seg:soft" in signature
        assert ("BLEU" in name or "chrF" in name) or f"omnisteval:{OMNISTEVAL}" in signature


def test_computing_time_counts_only_since_the_word_before():
    assert incremental([1, 3, 5, 9], [0, 1, 4, 4]) == [1, 2, 3, 8]
    assert incremental([], []) == []
    draw = random.Random(5)
    pairs = [pair("a", draw), pair("b", draw, measured=False)]
    assert not any(name.endswith("_ca") for name in score_streams(pairs)["longyaal"])
    zero = StreamInstance("z", "a b", (0, 1), (0.0, 0.0))  # as SimulEval writes for text
    figures = score_streams([([Segment("a b", 0, 2)], zero)])["longyaal"]
    assert not any(name.endswith("_ca") for name in figures)


def test_boundaries_count_exact_positions_inside_the_documents():
    segments = [Segment("", 0, 3), Segment("", 3, 0), Segment("", 3, 4), Segment("", 7, 2)]
    written = (Boundary(2, 3, 5), Boundary(4, 6, 6), Boundary(5, 9, 9))
    one = StreamInstance("a", "", (), boundaries=written)
    two = StreamInstance("b", "", (), boundaries=(Boundary(0, 7, 8),))
    found = boundary_scores([(segments, one), (segments, two)])
    assert found["precision"].value == pytest.approx(100 * 2 / 3)
    assert found["recall"].value == pytest.approx(100 * 2 / 4)  # at 3 and 7, in both documents
    assert found["F1"].value == pytest.approx(100 * 4 / 7)
    assert found["read_beyond"].value == pytest.approx((2 + 1) / 2)
    none = boundary_scores([(segments, StreamInstance("c", "", ()))])
    assert (none["precision"].value, none["recall"].value) == (None, 0)


def test_a_log_is_read_as_it_was_written(tmp_path):
    draw = random.Random(6)
    written = [pair("a", draw)[1], pair("b", draw, measured=False)[1], StreamInstance("c", "", ())]
    written.append(StreamInstance("d", "x y", (1, 2), (), (Boundary(1, 2, 2),), "u v"))
    write_streams(tmp_path / "log", written)
    assert read_streams(tmp_path / "log") == written
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert "elapsed" not in lines[1]  # a scorer would read it as times
    assert {"source", "prediction", "delays"} <= {*lines[2]}


@pytest.fixture
def golden_scores():
    """The instances and scores that OmniSTEval 0.1.7 wrote, equal to those of 0.1.10."""
    rows = [json.loads(line) for line in golden_lines("omnisteval/instances.resegmented.jsonl")]
    return rows, dict(row.split("\t") for row in golden_lines("omnisteval/scores.tsv")[1:])


@pytest.mark.parametrize("aware", [False, True])
@needs_golden
def test_long_latencies_of_the_published_log_equal_omnistevals(golden_scores, aware):
    scoring = pytest.importorskip("omnisteval.scoring", reason="OmniSTEval is not installed")
    data = pytest.importorskip("omnisteval.data", reason="OmniSTEval is not installed")
    theirs = [data.Instance.from_dict(row) for row in golden_scores[0]]
    kind = "emission_ca" if aware else "emission_cu"
    rows = [
        UnitDelays(
            row[kind],
            row["source_length"],
            len(row["reference"].split(" ")),
            row["time_to_recording_end"],
        )
        for row in golden_scores[0]
    ]
    ours = latencies(rows, STREAM_CONVENTIONS["longyaal"].metrics)
    for name in ("YAAL", "AL", "LAAL", "AP", "DAL"):
        further = {"is_longform": True} if name == "YAAL" else {}
        scorer = getattr(scoring, f"{name}Scorer")(computation_aware=aware, **further)
        assert ours[f"Long{name}"].value == near(scorer(theirs))


def test_of_two_boundaries_at_one_place_the_first_counts() -> None:
    segments = [Segment("", 0, 3), Segment("", 3, 4)]
    one = StreamInstance("a", "", (), boundaries=(Boundary(1, 3, 4), Boundary(2, 3, 6)))
    assert boundary_scores([(segments, one)])["read_beyond"].value == 1


def test_a_stream_ends_with_its_last_sound() -> None:
    """Segments of recordings may overlap."""
    segments = [Segment("a", 0, 9), Segment("b", 2, 3)]
    pieces = resegment((segments, StreamInstance("d", "a b", (1, 8))), lambda w, r: [0, 1])
    assert [piece.delays.end for piece in pieces] == [9, 7]


def test_a_reference_has_a_word_more_than_spaces():
    """As OmniSTEval counts: an empty one has a word, and each of two spaces ends one."""
    segments = [Segment("a  b", 0, 2), Segment("", 2, 1)]
    pieces = resegment((segments, StreamInstance("d", "a b", (1, 2))), levenshtein)
    assert [piece.delays.reference_length for piece in pieces] == [3, 1]


def test_the_language_of_the_tokeniser_stands_in_the_signature():
    one = [Segment("a", 0, 1)], StreamInstance("d", "a", (1,))
    found = score_streams([one], language="zh")
    assert "|seg:soft-zh|" in found["longyaal"]["LongYAAL"].signature
    assert found["longyaal"]["BLEU"].signature.endswith("|seg:soft-zh")
    assert "|seg:levenshtein|" in found["streaming"]["AL"].signature
