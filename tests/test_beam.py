"""Beam search: exact where the beam holds everything, greedy where it holds one hypothesis."""

import itertools
import math
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

import zoo
from simulmt.analysis.runs.found import find_runs
from simulmt.attention import FullSentence, Lookback, Mechanism, Source
from simulmt.decoding.beam import Beams, _continue, beam_search, search_from
from simulmt.decoding.greedy import greedy
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.search import Search
from simulmt.errors import UserError
from simulmt.models.model import Model
from simulmt.models.results import DecoderStep
from simulmt.models.vocabulary import Vocabulary
from simulmt.parts.builders import build_search
from simulmt.programs.evaluate import evaluate
from simulmt.programs.train import train
from simulmt.scoring.scores import Decoding, Scores
from simulmt.system.disk import read_record
from small_runs import SMALL, configuration
from zoo import BOS, EOS, PAD, UNK

LIMIT = 3
WORDS = (UNK, 4, 5)


class ToyState(NamedTuple):
    sentence: Tensor
    """(B,), the source's first token."""
    prefix: Tensor
    """(B, t), what was taken in."""


@Model.register
class Toy:
    """Fixed random log-probabilities for every sentence and prefix; PAD and BOS are the likeliest.

    It counts the rows of each step.
    """

    vocabulary = Vocabulary(6)
    mechanism = Mechanism(FullSentence(), Lookback())
    length_limit = staticmethod(Model.length_limit)
    begins = torch.tensor([True, True, True, True, True, False])

    def __init__(self, seed: int, eos: float = 0.0) -> None:
        self.seed = seed
        self.eos = eos
        self.rows: list[int] = []

    def log_p(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, sentence, *prefix)) % 2**62)
        logits = 2 * torch.randn(6, generator=generator, dtype=torch.float64)
        logits[[PAD, BOS]] = 4
        logits[EOS] += self.eos
        return logits.log_softmax(0)

    def encode(self, source: Tensor, mask: Tensor) -> Source:
        return Source(source, source[..., None].double(), mask, mask[:, 0])

    def start(self, source: Source) -> Any:
        self.read = int(source.mask.sum(1)[0])
        return ToyState(source.tokens[:, 0], source.tokens[:, :0])

    def step(self, token: Tensor, state: ToyState) -> Any:
        self.rows.append(len(token))
        prefix = torch.cat([state.prefix, token[:, None]], 1)
        rows = zip(state.sentence.tolist(), prefix[:, 1:].tolist(), strict=True)
        logits = torch.stack([self.log_p(sentence, tuple(row)) for sentence, row in rows])
        read = torch.full_like(token, self.read)
        stood = prefix.sum(1, keepdim=True).expand(-1, 2)  # something that tells the prefixes apart
        return DecoderStep(logits, ToyState(state.sentence, prefix), stood, read, read < 0, ())

    def score(self, sentence: int, tokens: tuple[int, ...], alpha: float) -> float:
        """The normalised score, written down from the paper."""
        whole = (*tokens, EOS)
        total = sum(float(self.log_p(sentence, whole[:i])[whole[i]]) for i in range(len(whole)))
        return total / ((5 + len(whole)) ** alpha / 6**alpha)


@pytest.fixture
def limited(monkeypatch) -> None:
    for kind in (Toy, Model):
        limit = staticmethod(lambda read: torch.full_like(read, LIMIT))
        monkeypatch.setattr(kind, "length_limit", limit)


def toy_sentences(count: int) -> tuple[Tensor, Tensor]:
    source = torch.stack([torch.arange(10, 10 + count), torch.full((count,), EOS)], 1)
    return source, torch.ones_like(source, dtype=torch.bool)


def every_translation() -> list[tuple[int, ...]]:
    return [t for n in range(LIMIT + 1) for t in itertools.product(WORDS, repeat=n)]


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("prefix", [(), (UNK,)], ids=str)
def test_a_beam_that_holds_everything_finds_the_optimum(prefix, alpha):
    """Of all translations that begin with the prefix, after which a word begins."""
    toy = Toy(seed=1)
    source, mask = toy_sentences(12)
    search = Search(len(every_translation()) * 3, alpha)
    start = toy.start(toy.encode(source, mask))
    found = search_from(toy, start, mask.sum(1), search, [prefix] * 12)
    if not prefix:
        assert found == beam_search(toy, source, mask, search)
    size, lengths = len(prefix), set()
    possible = [t for t in every_translation() if t[:size] == tuple(prefix)]
    possible = [t for t in possible if not 0 < size < len(t) or toy.begins[t[size]]]
    for sentence, hypothesis in zip(source[:, 0].tolist(), found, strict=True):
        best = max(possible, key=lambda t: toy.score(sentence, t, alpha))
        assert tuple(hypothesis.tokens) == best
        lengths.add(len(best))
    assert len(lengths) > 1, "the optima should vary for the law to say anything"


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("width", [1, 2, 3, 50])
def test_delays_and_positions_are_those_of_the_words(width):
    """Each word's position is that of the prefix it follows, through every change of rows."""
    toy = Toy(seed=3, eos=-1)
    source, mask = toy_sentences(40)
    for hypothesis in beam_search(toy, source, mask, Search(width, 3.0)):
        n = len(hypothesis.tokens)
        assert {PAD, BOS, EOS}.isdisjoint(hypothesis.tokens)
        assert hypothesis.delays == [2] * n
        sums = [BOS, *(BOS + s for s in itertools.accumulate(hypothesis.tokens))][:n]
        assert hypothesis.positions == [[s, s] for s in sums]


@pytest.mark.usefixtures("limited")
def test_finished_sentences_leave_and_hopeless_ones_are_given_up():
    source, mask = toy_sentences(20)
    toy, sure = Toy(seed=5), Toy(seed=5, eos=99)
    beam_search(toy, source, mask, Search(2, 0.6))
    assert all(rows % 2 == 0 for rows in toy.rows)
    assert toy.rows[0] == 40
    assert toy.rows == sorted(toy.rows, reverse=True)
    assert 0 < toy.rows[-1] < 40
    assert beam_search(sure, source, mask, Search(50, 0.6)) == [Hypothesis([], [], [])] * 20
    assert len(sure.rows) == 1, "nothing can beat an end of probability 1"


@pytest.mark.parametrize(("name", "kind"), zoo.pairs(zoo.OFFLINE))
def test_a_beam_of_one_is_greedy(name, kind):
    made = zoo.model(zoo.MECHANISMS[name], kind=kind)
    source, mask = zoo.sentences(6, 9)
    written = greedy(made, source, mask)
    assert beam_search(made, source, mask, Search(1, 0.6)) == written
    assert any(hypothesis.tokens for hypothesis in written)


@pytest.mark.parametrize("kind", zoo.SMALL)
@pytest.mark.parametrize("width", [2, 70])
def test_a_sentence_does_not_depend_on_its_batch(kind, width):
    soft, (source, mask) = zoo.model(zoo.options("soft"), seed=2, kind=kind), zoo.sentences(5, 7)
    together = beam_search(soft, source, mask, Search(width, 0.6))
    assert beam_search(soft, pad(source, (0, 4)), pad(mask, (0, 4)), Search(width, 0.6)) == together
    for row, length, hypothesis in zip(source, mask.sum(1), together, strict=True):
        alone = row[None, :length]
        assert beam_search(soft, alone, alone != PAD, Search(width, 0.6)) == [hypothesis]
    assert together != greedy(soft, source, mask)


@pytest.mark.parametrize(
    ("mechanism", "option", "value"),
    [("soft", "beam", 5000), ("soft", "length_penalty", "inf"), ("wait_k", "beam", 5)],
)
def test_bad_choices_are_named_before_the_data_are_read(mechanism, option, value, tmp_path):
    chosen = [*SMALL, f"mechanism={mechanism}", "data=text", f"data.root={tmp_path}"]
    chosen += ["data.source=de", "data.target=en", f"decoding.{option}={value}"]
    chosen += [f"data.{split}=no" for split in ("train", "valid", "test")]
    with pytest.raises(UserError, match=f"{option}( is |=){value}"):
        train(configuration("train", *chosen), str(tmp_path))


@pytest.mark.parametrize("name", zoo.MECHANISMS)
def test_the_usual_beam_is_for_what_reads_the_whole_sentence(name):
    made = zoo.fresh(zoo.MECHANISMS[name])
    search = build_search({"beam": None, "length_penalty": 0.6}, made)
    assert search.beam == (made.usual_beam if made.mechanism.offline else 1)


def scores(folder: Path, *overrides: str) -> Scores:
    evaluate(configuration("evaluate", f"checkpoint={folder}", "device=cpu", *overrides))
    name = "-".join(["test", "best", *(override.replace("=", "") for override in overrides)])
    return read_record(folder / "evaluation" / name / "scores.json", Scores)


def test_a_run_says_how_its_test_set_was_decoded(trained_once, tmp_path):
    trained = trained_once("mechanism=soft", "decoding.beam=2", "data.train=120", "data.test=24")
    finished = Path(shutil.copytree(trained, tmp_path / "run"))
    tested = read_record(finished / "test_scores.json", Scores)
    own = Decoding("best", "test", 2, 0.6)
    assert tested.decoding == own
    assert scores(finished) == tested
    assert scores(finished, "length_penalty=1").decoding == replace(own, length_penalty=1)
    assert scores(finished, "beam=1").decoding == Decoding("best", "test", 1)
    assert math.isfinite(tested["paper", "word"]["BLEU"].value)
    names = {" ".join(run.dials()) for run in find_runs(finished).runs}
    assert names == {"", "beam=1", "length_penalty=1"}
    with pytest.raises(UserError, match="greedy"):
        scores(finished, "beam=1", "length_penalty=1")


def test_different_logits_of_a_float32_model_are_no_tie() -> None:
    """Else a beam of 1 would not be greedy, which compares the logits themselves."""
    logits = torch.zeros(2, 6)
    logits[0, 5] = 2e-7
    logits[:, 4] = 9.0
    assert logits[0, 5] > logits[0, 0]
    log_p = torch.zeros(2, dtype=torch.float64)
    beams = Beams(None, log_p, torch.zeros(2, 1, dtype=torch.long), torch.zeros(2, 0))
    barred = torch.zeros(1, 6, dtype=torch.bool)
    found, _ = _continue(SimpleNamespace(logits=logits), beams, barred, all_tokens=True)
    assert found[0, 5] > found[0, 0]
