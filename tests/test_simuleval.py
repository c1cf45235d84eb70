"""SimulEval drives a briefly trained checkpoint, and scores what simulmt wrote."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from commands import ROOT, Answer, type_in
from simulmt.data.text import normalise
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.greedy import greedy
from simulmt.decoding.policies import LocalAgreement
from simulmt.decoding.writing import WORDS
from simulmt.files.instances import read_instances
from simulmt.live.translator import Translator
from small_runs import LONGER
from zoo import EOS

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("simuleval") is None,
    reason="SimulEval is not installed: make setup, or docs/simuleval.md",
)
AGENT = "simulmt.live.simuleval_agent.SimulmtAgent"
AGENTS = {"--agent": ROOT / "src/simulmt/live/simuleval_agent.py", "--agent-class": AGENT}
BAD = {
    ("--checkpoint", "nowhere"): "no checkpoint at checkpoint=nowhere",
    ("--checkpoint", "nowhere", "--fp16"): "half precision",
}
ODD = ["Der", "", "☃ 你好 ☃", "der \N{SNOWMAN} schläft .", "  die▁Frau \t ▁ schläft . "]


@pytest.fixture(scope="module")
def finished(trained_once) -> Path:
    return trained_once(*LONGER, "mechanism=wait_k")


@pytest.fixture(scope="module")
def sources() -> list[str]:
    return [*verbfinal(1, 300, 9, 11).splits["test"].sources[:8], *ODD]


@pytest.fixture(scope="module")
def folder(finished, sources, tmp_path_factory) -> Path:
    """Texts for SimulEval, and what simulmt wrote; here SimulEval writes, too."""
    folder = tmp_path_factory.mktemp("simuleval")
    text = "".join(source + "\n" for source in sources)
    (folder / "source.txt").write_text(text, encoding="utf-8")
    (folder / "target.txt").write_text("the\n" * len(sources), encoding="utf-8")
    shutil.copy(finished / "instances.log", folder)
    return folder


@pytest.fixture(scope="module")
def answers(finished, folder) -> list[Answer]:
    """What SimulEval says, in one process: of both agents, of our scores, of bad input."""
    files = ["--source", folder / "source.txt", "--target", folder / "target.txt"]
    runs = [
        [name, agent, "--checkpoint", finished, *files, "--output", folder / name]
        for name, agent in AGENTS.items()
    ]
    kinds = ["--source-type", "text", "--target-type", "text"]
    bad = [["--agent-class", AGENT, *options, *files] for options in BAD]
    commands = [*runs, ["--score-only", "--output", folder, *kinds], *bad]
    return type_in(*(["simuleval.cli", *arguments] for arguments in commands))


@pytest.fixture(scope="module", params=AGENTS)
def logged(request, answers, folder) -> list[dict]:
    done = answers[[*AGENTS].index(request.param)]
    assert done.status == 0, done.err
    assert "BLEU" in done.out
    lines = (folder / request.param / "instances.log").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_simuleval_gets_the_words_of_the_translator_when_they_are_decided(
    logged, finished, sources
):
    translator = Translator.load(finished, device="cpu")
    assert len(logged) == len(sources)
    for record, source in zip(logged, sources, strict=True):
        translator.reset()
        delays: list[int] = []
        for count, word in enumerate(source.split(), start=1):
            delays += [count] * len(translator.read(word))
        if translator.words_read:
            delays += [len(source.split())] * len(translator.finish())
        assert record["prediction"] == " ".join(translator.words_written)
        assert record["delays"] == delays


def test_simuleval_gets_what_a_batch_has_and_no_word_before_it_was_written(
    logged, finished, sources
):
    translator = Translator.load(finished, device="cpu")
    subwords, early = translator.subwords, 0
    ids = [subwords.encode(source) for source in sources]
    padded = [torch.tensor([*row, EOS]) for row in ids]
    batch = torch.nn.utils.rnn.pad_sequence(padded, batch_first=True)
    lengths = torch.tensor([len(row) + 1 for row in ids])
    mask = torch.arange(batch.shape[1]) < lengths[:, None]
    for record, row, written in zip(
        logged, ids, greedy(translator.model, batch, mask), strict=True
    ):
        if not row:
            assert record["prediction"] == ""
            continue
        tokens, words = written.tokens, subwords.words_touched(row)
        assert record["prediction"] == subwords.decode(tokens)
        if normalise(record["source"]) != record["source"]:
            continue  # words are counted in another way there
        least = subwords.words_touched(tokens).delays(written.delays, words)
        assert all(late >= delay for late, delay in zip(record["delays"], least, strict=True))
        early += sum(delay < record["source_length"] for delay in record["delays"])
    assert early, "without early words this says nothing"


def test_simuleval_scores_what_simulmt_wrote(finished, answers):
    instances, done = read_instances(finished / "instances.log"), answers[len(AGENTS)]
    assert done.status == 0, done.err
    names, values = (line.split() for line in done.out.splitlines())
    scores = dict(zip(names, map(float, values[1:]), strict=True))
    counted = [one for one in instances if one.delays]
    proportions = [sum(one.delays) / (one.source_length * one.reference_length) for one in counted]
    # SimulEval prints three digits
    assert scores["AP"] == pytest.approx(sum(proportions) / len(counted), abs=5.1e-4)


def test_simuleval_prints_no_atd_of_text(answers):
    """As docs/simuleval.md says; a version that does needs another page."""
    for done in answers[: len(AGENTS) + 1]:
        assert "ATD" in done.out
        assert float(done.out.split()[-1]) == 0


def test_bad_input_is_one_line(answers):
    for done, message in zip(answers[-len(BAD) :], BAD.values(), strict=True):
        assert done.status == 2
        (line,) = (line for line in done.err.splitlines() if line.startswith("error: "))
        assert message in line
        assert "Traceback" not in done.err


def agent(*words: str):
    """The agent that SimulEval makes of these arguments."""
    from simuleval.options import general_parser

    from simulmt.live.simuleval_agent import SimulmtAgent

    parser = general_parser()
    SimulmtAgent.add_args(parser)
    return SimulmtAgent.from_args(parser.parse_args([*words]))


def test_policies_and_dials_are_those_of_translate(finished, trained_once, capsys):
    model = agent("--checkpoint", str(finished), "--dial", "k=7").translator.model
    assert model.mechanism.dials["k"] == 7
    soft = str(trained_once(*LONGER, "mechanism=soft", "model.encoder=bidirectional"))
    policy = agent("--checkpoint", soft, "--policy", "local_agreement", "n=3").translator.policy
    assert policy == LocalAgreement(n=3)
    for wrong, said in {
        ("--dial", "q=1"): "dial.q=1 with mechanism=soft: it has none; leave dial.q out",
        ("--policy", "hold_n", "n=few"): "policy.n is 'few'; it must be a valid integer",
        ("--policy", "hold_n", "n="): "policy.n is ''; it must be a valid integer",
        ("--policy", "retranslation"): "takes words back, which SimulEval cannot show",
    }.items():
        with pytest.raises(SystemExit):
            agent("--checkpoint", soft, *wrong)
        assert said in capsys.readouterr().err
    with pytest.raises(SystemExit):
        agent("--checkpoint", str(finished), "--dial", "k=seven")
    assert "dial.k is 'seven'; it must be a valid integer" in capsys.readouterr().err


class Talker(Translator):
    """A translator that writes two words at the second word read, and then ends."""

    subwords = SimpleNamespace(writing=WORDS)

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.words_read: list[str] = []

    def read(self, word: str | None) -> list[str]:
        self.words_read += [] if word is None else [word]
        return ["two", "words"] if word and len(self.words_read) == 2 else []


def test_a_translation_that_ends_early_ends_with_the_source():
    from simuleval.evaluator.instance import TextToTextInstance

    from simulmt.live.simuleval_agent import SimulmtAgent

    agent = SimulmtAgent(SimpleNamespace(), Talker())
    for source in ("a b c d", "a b", "a", ""):
        words = {"source": source.split(), "target": "", "tgt_lang": None}
        instance = TextToTextInstance(0, [words], SimpleNamespace(eval_latency_unit="word"))
        agent.reset()
        for _ in range(len(source.split()) + 1):
            if not instance.finish_prediction:
                instance.receive_prediction(agent.pushpop(instance.send_source(1)))
        assert instance.finish_prediction, "SimulEval would never stop asking"
        early = len(source.split()) >= 2
        assert (instance.prediction, instance.delays) == (
            ("two words", [2, 2]) if early else ("", [])
        )
