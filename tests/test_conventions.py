"""The conventions against the scorers they are named after, where these are installed."""

import importlib.metadata
import math
from argparse import Namespace
from dataclasses import replace

import pytest

from commands import omnisteval
from simulmt.decoding.instance import Instance
from simulmt.files.instances import write_instances
from simulmt.scoring.conventions import CONVENTIONS, Bleu
from simulmt.scoring.degeneracy import FIGURES, OMNISTEVAL
from simulmt.scoring.score import bleu, score
from simulmt.scoring.scores import Figures, Scores

TOLERANCE = 1e-6  # ours are float64 in another order; OmniSTEval prints four digits, see there
PRINTED = 5e-5 * 1.01


def line(index, source, reference, prediction, delays, elapsed=()):
    return Instance(
        index,
        source,
        reference,
        prediction,
        delays,
        subword_delays=delays,
        subword_source_length=len(source.split()),
        subword_reference_length=len(reference.split()),
        elapsed=elapsed,
    )


TRICKY = [
    line(0, "a b c d", "A B C D", "A B C E", (3, 4, 4, 4), (3.2, 4.5, 4.9, 5.0)),
    line(1, "a b c", "A B C", "", ()),  # nothing written
    line(2, "a b c d e", "A B C", "A", (2,), (2.5,)),  # one word, never read to the end
    line(3, "a b", "A B.", "A B C D B .", (1, 1, 1, 2, 2, 2), (1.5, 1.5, 1.7, 2.5, 2.5, 9.0)),
    line(4, "a", "A", "A", (1,), (1.25,)),  # a source of one word, read to its end
    line(5, "a b c", "A B C D", "A X", (4, 5), (4.0, 5.5)),  # d1 > |src|
    line(6, "a b c d e f", "A B C D E F", "A B D F", (0, 2, 3, 5), (0.5, 2.75, 5.0, 7.5)),
    line(7, "a", "A B C", "A A", (0, 0), (0.0, 0.5)),  # written before anything was read
    line(8, "a b c", "A B C", "A B C", (2, 3, 3), (3.1, 3.2, 3.3)),  # late by computing alone
]


def figures(scores: Scores, name: str) -> Figures:
    return scores[name, CONVENTIONS[name].units[0]]


def simuleval_instances():
    """As SimulEval would have built them itself for text to text."""
    from simuleval.evaluator.instance import TextToTextInstance

    given = {}
    for ours in TRICKY:
        if not ours.delays:  # it warns of them, and leaves them out
            continue
        theirs = TextToTextInstance(ours.index, None, Namespace(eval_latency_unit="word"))
        theirs.source, theirs.reference = ours.source.split(), ours.reference
        theirs.prediction_list, theirs.delays = ours.prediction.split(), list(ours.delays)
        given[ours.index] = theirs
    return given


@pytest.mark.parametrize("name", CONVENTIONS["simuleval"].metrics)
def test_simuleval_counts_the_same(name):
    """Of the corpus, and of every sentence."""
    package = "simuleval.evaluator.scorers.latency_scorer"
    scorer = pytest.importorskip(package, reason="SimulEval is not installed")
    latency, instances = scorer.LATENCY_SCORERS_DICT[name](), simuleval_instances()
    expected = [latency(instances), *(latency({0: one}) for one in instances.values())]
    corpora = [TRICKY, *([TRICKY[index]] for index in instances)]
    found = [figures(score(corpus), "simuleval")[name].value for corpus in corpora]
    assert found == pytest.approx(expected, abs=TOLERANCE)


@pytest.fixture
def omnisteval_scores(tmp_path):
    """What its command line finds for our instances.log."""
    write_instances(tmp_path / "instances.log", TRICKY)
    references = "".join(f"{one.reference}\n" for one in TRICKY)
    (tmp_path / "ref.txt").write_text(references, encoding="utf-8")
    options = "shortform --word_level --hypothesis_file instances.log --ref_sentences_file ref.txt"
    return omnisteval(tmp_path, *options.split())


def test_omnisteval_finds_the_same_quality_and_latency(omnisteval_scores):
    scores = score(TRICKY)
    plain, aware = figures(scores, "omnisteval"), scores.computation_aware.figures
    found = {name: plain[name].value for name in ("BLEU", "chrF")}
    for name in CONVENTIONS["omnisteval"].metrics:
        found |= {f"{name} (CU)": plain[name].value, f"{name} (CA)": aware[name].value}
    expected = {name: float(omnisteval_scores[name]) for name in found}
    assert found == pytest.approx(expected, abs=PRINTED)


def theirs(one):
    """As OmniSTEval's own instance."""
    data = pytest.importorskip("omnisteval.data", reason="OmniSTEval is not installed")
    emitted = {"emission_cu": list(one.delays), "emission_ca": list(one.elapsed)}
    length = one.source_length
    return data.Instance(one.prediction, one.reference, source_length=length, **emitted)


def near(value):
    return None if math.isnan(value) else pytest.approx(value, abs=TOLERANCE)


def test_omnisteval_finds_the_same_policies_degenerate():
    scoring = pytest.importorskip("omnisteval.scoring", reason="OmniSTEval is not installed")
    assert importlib.metadata.version("omnisteval") == OMNISTEVAL
    for corpus in (TRICKY, TRICKY[:3], *([one] for one in TRICKY)):
        expected = scoring.ShortformDegeneracyScorer()([*map(theirs, corpus)])
        ours = figures(score(corpus), "omnisteval")
        assert [ours[name].value for name in FIGURES] == [
            near(expected[name.lower()]) for name in FIGURES
        ]


@pytest.mark.parametrize("ours", [one for one in TRICKY if one.delays], ids=lambda one: one.index)
def test_omnisteval_counts_every_sentence_the_same(ours):
    scoring = pytest.importorskip("omnisteval.scoring", reason="OmniSTEval is not installed")
    scores = score([ours])
    plain, aware = figures(scores, "omnisteval"), scores.computation_aware.figures
    for name in CONVENTIONS["omnisteval"].metrics:
        scorer = getattr(scoring, f"{name}Scorer")
        for counted, computing in ((plain, False), (aware, True)):
            assert counted[name].value == near(scorer(computation_aware=computing)([theirs(ours)]))


def actions(one):
    """The reads (0) and writes (1) of a sentence, all of the source read at the end."""
    read, written = 0, ""
    for delay in (min(delay, one.subword_source_length) for delay in one.subword_delays):
        written += "0" * (delay - read) + "1"
        read = delay
    return written + "0" * (one.subword_source_length - read)


def test_ictnlp_counts_reads_and_writes_of_subwords():
    told = [actions(one) for one in TRICKY if one.subword_delays]
    waits = [row.count("0") / row.count("01") if "01" in row else 0 for row in told]
    shares = []
    for row in told:
        read = [row[:i].count("0") for i, action in enumerate(row) if action == "1"]
        shares.append(sum(read) / row.count("0") / row.count("1"))
    own, paper = figures(score(TRICKY), "ictnlp"), score(TRICKY)["paper", "subword"]
    assert own["CW"].value == pytest.approx(sum(waits) / len(waits))
    assert own["AP"].value == pytest.approx(sum(shares) / len(shares))
    assert own["CW"].value > paper["CW"].value  # unread ends count, too
    assert own["AL"] == paper["AL"]


def test_ictnlp_lowers_case_and_splits_at_spaces():
    scores = score([line(0, "a b c d", "A B c d .", "a b C d .", (1, 2, 3, 4, 4))])
    assert figures(scores, "ictnlp")["BLEU"].value == pytest.approx(100)
    assert figures(scores, "paper")["BLEU"].value < 100
    signature = figures(scores, "ictnlp")["BLEU"].signature
    assert signature == bleu(["a"], ["a"], Bleu("none", lowercase=True)).signature
    assert {"case:lc", "tok:none"} <= {*signature.split("|")}


def test_computation_aware_latency_is_there_where_it_was_measured():
    aware = score(TRICKY).computation_aware
    assert aware.sentences == sum(bool(one.elapsed) for one in TRICKY) == 8
    assert "|d:ca|" in aware.figures["AL"].signature
    one = score([TRICKY[0]]).computation_aware.figures
    assert one["AL"].value == pytest.approx((3.2 + (4.5 - 1)) / 2)  # the second word ends it
    assert one["YAAL"].value == pytest.approx(3.2)
    bare = [replace(one, elapsed=()) for one in TRICKY]
    assert score(bare) == replace(score(TRICKY), computation_aware=None)
