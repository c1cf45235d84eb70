"""Text without spaces, of which each character is a word: from its files to its scores."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import tty
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from characters import options, write_corpus
from commands import omnisteval, type_in
from simulmt.data.reader import read_text
from simulmt.data.subwords import Subwords
from simulmt.data.writing_options import WritingOptions
from simulmt.decoding.cuts import cut_of
from simulmt.decoding.document import DocumentStream
from simulmt.decoding.forced import word_weights
from simulmt.decoding.instance import Instance
from simulmt.decoding.stream_instance import Boundary, StreamInstance
from simulmt.decoding.word_map import WordMap
from simulmt.decoding.writing import Writing, spaced, words_of
from simulmt.errors import UserError
from simulmt.files.instances import read_instances, read_streams, write_instances, write_streams
from simulmt.live import interpreter
from simulmt.live.cascade import Cascade, StageLine
from simulmt.live.keyboard import typed
from simulmt.live.translator import Translator
from simulmt.parts.builders import Data
from simulmt.programs.evaluate import evaluate
from simulmt.programs.plain import plain
from simulmt.programs.score import score as score_log
from simulmt.scoring.conventions import CONVENTIONS, Bleu
from simulmt.scoring.reference_document import Segment
from simulmt.scoring.score import score
from simulmt.scoring.stream_score import score_streams
from small_runs import configuration

BOTH, TARGET = Writing(True, True, "zh"), Writing(False, True, "zh")
SOURCE = Writing(source=True)
PRINTED = 5e-5 * 1.01  # OmniSTEval prints four digits
EXACT = 1e-9  # the same formulas in float64


def line(index: int, source: str, reference: str, prediction: str, *delays: int) -> Instance:
    texts = source, spaced(reference, True), spaced(prediction, True)
    return Instance(index, *texts, delays, writing=TARGET)


LOG = [
    line(0, "the red cat sleeps", "红猫在睡觉。", "红猫睡觉。", 2, 3, 4, 4, 4),
    line(1, "a new phone", "一台新iPhone手机", "新iPhone", 1, 2, 2, 3, 3, 3, 3),
    line(2, "we go", "我们走", "我", 1),  # never read to the end
    line(3, "a b c", "甲乙丙", ""),  # nothing is written
    line(4, "stop", "停", "停下来吧", 1, 1, 1, 1),
    line(5, "b c d e", "乙丙丁戊己", "乙丙丁", 0, 5, 6),  # before anything is read, and too late
]


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    text = ["the red cat sleeps in the red house", "红 猫 在 睡 觉 。", "红 猫 在 红 房 子 里 。"]
    return Subwords.train(text * 3, 45, "bpe").written(BOTH)


def test_a_text_has_the_same_subwords_with_spaces_and_without(subwords):
    for text in ("红猫在睡觉。", "红猫 在 睡觉 。", " 红\u3000猫在\u2581睡 觉。"):
        for encode in (subwords.encode, subwords.encode_target):
            assert encode(text) == encode("红 猫 在 睡 觉 。")
        assert subwords.decode(subwords.encode_target(text)) == "红猫在睡觉。"
        words = subwords.source_words(text)
        assert words.ends[-1] == len(subwords.encode(text))
        assert len(words.ends) == 6


def test_any_subwords_form_as_many_words_as_the_text_has_characters(subwords):
    """Also pieces of the other language, each of whose characters has the delay of its piece."""
    rng, long = random.Random(1), 0
    for _ in range(300):
        ids = rng.choices(range(len(subwords)), k=rng.randint(0, 8))
        words, target = subwords.words(ids), subwords.target_words(ids)
        assert "".join(words) == subwords.decode(ids)
        assert all(len(word) == 1 and not word.isspace() for word in words)
        sizes = [len(subwords.words([piece])) for piece in ids]
        assert target.ends == [n for n, size in enumerate(sizes, 1) for _ in range(size)]
        long += max(sizes, default=0) > 1
    assert long, "no piece of several characters"


def test_characters_of_one_piece_share_its_attention():
    weights, places = np.arange(12.0).reshape(6, 2), WordMap([1, 2])
    merged = word_weights(weights, places, WordMap([1, 1, 3, 4, 4, 0]))
    assert merged.tolist() == [[1, 2], [4, 5], [4, 5], [7, 8]]


def test_words_between_spaces_stay_as_they_are(subwords):
    plain = subwords.written(Writing())
    for text in ("the red cat", "红 猫"):
        ids = plain.encode_target(text)
        assert plain.decode(ids) == text
        assert plain.target_words(ids) == plain.words_touched(ids)


def test_a_corpus_has_a_space_between_any_two_characters(tmp_path):
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.zh").write_text("红 猫\u3000睡。\n一二三四五\n", encoding="utf-8")
        (tmp_path / f"{split}.en").write_text("a cat\nnumbers\n", encoding="utf-8")
    given = (str(tmp_path), "zh", "en", "train", "valid", "test", 4, "toy")
    corpus = read_text(*given, writing=Writing(source=True))
    train, test = corpus.splits["train"], corpus.splits["test"]
    assert list(train.sources) == ["红 猫 睡 。"]
    assert train.dropped == {"empty": 0, "too_long": 1}, "five characters"
    assert list(test.sources) == ["红 猫 睡 。", "一 二 三 四 五"]
    assert list(test.targets) == ["a cat", "numbers"]


def test_bleu_is_that_of_the_target_language():
    assert WritingOptions().of("en").bleu == "13a"
    assert WritingOptions(("source",)).of("zh").bleu == "zh"  # in words, between spaces
    found = {
        code: WritingOptions(("target",)).of(code).bleu for code in ("zh", "zh-CN", "ja", "th")
    }
    assert found == {"zh": "zh", "zh-CN": "zh", "ja": "ja-mecab", "th": "char"}
    assert WritingOptions(("target",), "char").of("ja").bleu == "char"


def test_corpora_of_words_have_no_characters():
    group = plain(configuration("train").data) | {"characters": ["target"]}
    with pytest.raises(UserError, match=r"words between spaces: set data.characters=\[\]"):
        Data.of(group)


def test_signatures_name_both_units_where_they_differ():
    assert Writing().fields("word") == ("u:word",)
    assert TARGET.fields("word") == ("u:char", "src:word")
    assert Writing(source=True).fields("word") == ("u:word", "src:char")
    assert BOTH.fields("word") == ("u:char",)
    assert (Writing().fields("ms"), TARGET.fields("ms")) == (("u:ms",), ("u:char", "src:ms"))
    assert BOTH.fields("subword") == ("u:subword",)


# figures


def test_a_log_holds_text_as_it_is_written(tmp_path):
    write_instances(tmp_path / "log", LOG)
    lines = [json.loads(text) for text in (tmp_path / "log").read_text("utf-8").splitlines()]
    assert lines[1]["prediction"] == "新iPhone"
    assert lines[1]["prediction_length"] == len(lines[1]["delays"]) == 7
    assert lines[1]["source"] == "a new phone"
    assert read_instances(tmp_path / "log", TARGET) == LOG
    with pytest.raises(UserError, match="5 delays for the 1 words"):
        read_instances(tmp_path / "log")


def simuleval_instances(log):
    from simuleval.evaluator.instance import TextToTextInstance

    for ours in log:
        theirs = TextToTextInstance(ours.index, None, Namespace(eval_latency_unit="char"))
        theirs.source, theirs.reference = ours.source.split(), ours.reference.replace(" ", "")
        theirs.prediction_list, theirs.delays = ours.prediction.split(), list(ours.delays)
        if ours.delays:  # it warns of others, and leaves them out
            yield ours.index, theirs


@pytest.mark.parametrize("name", CONVENTIONS["simuleval"].metrics)
def test_simuleval_counts_characters_the_same(name):
    package = "simuleval.evaluator.scorers.latency_scorer"
    scorer = pytest.importorskip(package, reason="SimulEval is not installed")
    expected = scorer.LATENCY_SCORERS_DICT[name]()(dict(simuleval_instances(LOG)))
    found = score(LOG)["simuleval", "word"][name]
    assert found.value == pytest.approx(expected, abs=EXACT)
    assert "|u:char|src:word|" in found.signature


LOG_AND_REF = "--hypothesis_file instances.log --ref_sentences_file ref"
OMNISTEVAL = f"--char_level --bleu_tokenizer zh {LOG_AND_REF}"


def test_omnisteval_counts_characters_the_same(tmp_path):
    write_instances(tmp_path / "instances.log", LOG)
    references = "".join(f"{one.reference.replace(' ', '')}\n" for one in LOG)
    (tmp_path / "ref").write_text(references, encoding="utf-8")
    theirs = omnisteval(tmp_path, "shortform", *OMNISTEVAL.split())
    ours = score(LOG)["omnisteval", "word"]
    names = {"BLEU": "BLEU", "chrF": "chrF"}
    names |= {name: f"{name} (CU)" for name in CONVENTIONS["omnisteval"].metrics}
    for own, their in names.items():
        assert ours[own].value == pytest.approx(float(theirs[their]), abs=PRINTED), own
    assert "tok:zh" in ours["BLEU"].signature


SOURCES = ["the cat sleeps", "we go", "a red house stands", "stop"]
REFERENCES = ["红猫在睡觉。", "我们走…好", "一座红房子", "停！"]
IDS = ["a", "a", "b", "b"]
DOCUMENTS = [
    StreamInstance("a", "红猫睡觉。我门走...好的", (1, 2, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5, 5)),
    StreamInstance("b", "二座，红屋子停下!", (1, 2, 2, 3, 4, 4, 5, 5, 5)),
]


@pytest.fixture
def documents(tmp_path) -> Path:
    for name, lines in {"src": SOURCES, "ref": REFERENCES, "ids": IDS}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    write_streams(tmp_path / "instances.log", DOCUMENTS)
    return tmp_path


def scored(folder: Path, *chosen: str) -> dict:
    given = [
        f"{key}={folder / name}" for key, name in {"references": "ref", "source": "src"}.items()
    ]
    given += [f"log={folder}/instances.log", f"documents={folder}/ids", *chosen]
    score_log(configuration("score", *given))
    return json.loads((folder / "instances.scores.json").read_text("utf-8"))


def test_documents_in_characters_are_scored_as_omnisteval_does(documents):
    found = scored(documents, "characters=[target]", "language=zh")["longyaal"]
    lengths, offset, rows = [len(source.split()) for source in SOURCES], 0, []
    for name, length, before in zip(IDS, lengths, [None, *IDS], strict=False):
        offset = offset if name == before else 0
        rows.append({"wav": f"{name}.wav", "offset": offset, "duration": length, "speaker_id": "x"})
        offset += length
    (documents / "s.json").write_text(json.dumps(rows))
    slow = [replace(one, delays=tuple(1000 * delay for delay in one.delays)) for one in DOCUMENTS]
    write_streams(documents / "instances.log", slow)
    options = f"longform {OMNISTEVAL} --speech_segmentation s.json --lang zh"
    theirs = omnisteval(documents, *options.split())
    assert found["BLEU"]["value"] == pytest.approx(float(theirs["BLEU"]), abs=PRINTED)
    for name in ("LongYAAL", "LongAL", "LongLAAL", "LongDAL"):
        expected = pytest.approx(float(theirs[f"{name} (CU)"]), abs=PRINTED)
        assert 1000 * found[name]["value"] == expected
    assert "|u:char|src:word|" in found["LongYAAL"]["signature"]


def test_a_log_in_another_unit_is_an_error(documents):
    assert read_streams(documents / "instances.log") == DOCUMENTS
    with pytest.raises(UserError, match="are those of characters: set characters=\\[target\\]"):
        scored(documents)
    write_streams(documents / "instances.log", [StreamInstance(n, "ab c", (1, 2)) for n in "ab"])
    with pytest.raises(UserError, match="are those of words: set characters=\\[\\]"):
        scored(documents, "characters=[target]")


# a trained model


@pytest.fixture(scope="module")
def run_of(trained_once, tmp_path_factory):
    """Returns a run of which some sides are in characters."""

    def run_of(*more: str, sides: tuple[str, ...] = ("source", "target")) -> Path:
        folder = tmp_path_factory.getbasetemp() / f"text-{'-'.join(sides)}"
        if not folder.exists():
            folder.mkdir()
            write_corpus(folder, "target" in sides, "source" in sides)
        return trained_once(*options(folder, *sides), *more)

    return run_of


@pytest.fixture(scope="module")
def run(run_of) -> Path:
    return run_of("mechanism=wait_k")


@pytest.fixture(scope="module")
def translator(run) -> Translator:
    return Translator.load(run, "cpu")


def log_of(run: Path) -> list[Instance]:
    return read_instances(run / "instances.log", BOTH)


def test_a_run_decodes_and_scores_characters(run, run_of):
    raw = [json.loads(text) for text in (run / "instances.log").read_text("utf-8").splitlines()]
    assert all(" " not in one[key] for one in raw for key in ("source", "reference", "prediction"))
    assert all(len(one["delays"]) == len(one["prediction"]) for one in raw)
    assert any(min(one["delays"], default=9) < one["source_length"] for one in raw), "only whole"
    for one in raw:  # wait-3 in subwords: no character is written before three subwords are read
        assert one["source_length"] == len(one["source"])
    scores = json.loads((run / "test_scores.json").read_text("utf-8"))
    assert scores["writing"] == {"source": True, "target": True, "bleu": "char"}
    figures = scores["figures"]["simuleval"]["word"]
    assert "|u:char|" in figures["AL"]["signature"]
    assert "tok:char" in figures["BLEU"]["signature"]
    only_target = run_of("mechanism=wait_k", sides=("target",))
    lengths = {
        len(one.source.split()) for one in read_instances(only_target / "instances.log", TARGET)
    }
    assert max(lengths) < max(one["source_length"] for one in raw), "words between spaces"


@pytest.mark.parametrize("mechanism", ["wait_k", "mma_il"])
def test_live_translation_writes_what_a_batch_wrote(mechanism, run_of):
    translator = Translator.load(run_of(f"mechanism={mechanism}"), "cpu")
    subwords = translator.subwords
    assert (subwords.writing.source, subwords.writing.target) == (True, True)
    for one in log_of(run_of(f"mechanism={mechanism}"))[:5]:
        for text in ([one.source], one.source.split()):  # spaced out, and one by one
            translator.reset()
            words = [word for part in text for word in translator.read(part)]
            words += translator.finish()
            assert " ".join(words) == one.prediction
            assert translator.words_read == one.source.split()
        written = translator.stream.written
        target, source = subwords.target_words(written.tokens), subwords.source_words(one.source)
        assert target.delays(written.delays, source) == one.delays


def test_a_character_is_told_with_its_last_subword(translator, run):
    """In its own batch: no successor is needed to know that it is complete."""
    for one in log_of(run)[:5]:
        translator.reset()
        delays = list[int]()
        for count, sign in enumerate(one.source.split(), 1):
            delays += [count] * len(translator.read(sign))
        delays += [one.source_length] * len(translator.finish())
        assert tuple(delays) == one.delays


def test_a_checkpoint_is_evaluated_as_it_was_tested_and_with_another_tokeniser(run, tmp_path):
    run = Path(shutil.copytree(run, tmp_path / "run"))
    evaluate(configuration("evaluate", f"checkpoint={run}"))
    again = run / "evaluation" / "test-best"
    assert (again / "instances.log").read_bytes() == (run / "instances.log").read_bytes()
    assert (again / "scores.json").read_bytes() == (run / "test_scores.json").read_bytes()
    policy = ["policy=local_agreement", "policy.n=2"]
    evaluate(configuration("evaluate", f"checkpoint={run}", "bleu=zh", *policy))
    (other,) = (run / "evaluation").glob("*bleuzh*")
    figures = json.loads((other / "scores.json").read_text("utf-8"))["figures"]
    assert "tok:zh" in figures["paper"]["word"]["BLEU"]["signature"]
    log = read_instances(other / "instances.log", BOTH)
    assert [one.source for one in log] == [one.source for one in log_of(run)]


def test_a_pipe_carries_text_without_spaces(translator, run):
    instances = log_of(run)[:3]
    text = "".join(f"{one.source.replace(' ', '')}\n" for one in instances)
    for chunk in (1, 7, len(text)):
        pieces = (text[at : at + chunk] for at in range(0, len(text), chunk))
        output = io.StringIO()
        events = interpreter.interpret(translator, interpreter.words_of(pieces, True), pytest.fail)
        interpreter.print_translation(events, output, characters=True)
        assert output.getvalue() == "".join(f"{i.prediction.replace(' ', '')}\n" for i in instances)


def test_a_character_arrives_at_once_and_composed():
    seen = [*interpreter.words_of(iter(["红 ", "猫\u3000\n\n", "か\u3099", "a"]), True)]
    assert seen == ["红", "猫", "\n", "\n", "が", "a", "\n"]


def test_a_recogniser_is_translated_character_by_character(translator, run):
    one = log_of(run)[0]
    text, lines = one.source.replace(" ", ""), []
    cascade = Cascade(translator, pytest.fail)
    for at in range(0, len(text), 3):
        heard = StageLine(at, text[at : at + 3], end=at, unconfirmed_text=text[at + 3 : at + 5])
        lines.append(cascade.translate(heard))
    lines.append(cascade.translate(StageLine(99, is_final=True)))
    assert "".join(line.text for line in lines) == one.prediction.replace(" ", "")
    assert all(" " not in line.unconfirmed_text for line in lines)


def test_a_stream_reads_characters_live_as_in_a_batch(translator):
    """Sentences that the model ends; a likelihood cut needs no pointer."""
    model, subwords = translator.model, translator.subwords
    cut = cut_of("likelihood", model, None)
    text = "亅万亣仉前丸亊刎二价且佀丁亍刑乗凛伛"
    stream = DocumentStream(model, cut)
    for word in [*map(subwords.encode, words_of(text, True)), [model.vocabulary.eos]]:
        stream.read_word(word)
    ended = stream.ended()
    assert sum(len(segment.words) for segment in ended) == len(text)


@pytest.mark.parametrize("characters", [True, False])
def test_a_key_is_a_character(characters):
    master, slave = os.openpty()
    tty.setcbreak(slave)
    os.write(master, "红猫 睡\x04".encode())
    keys = [*typed(slave, lambda word: None, characters)]
    os.close(master)
    os.close(slave)
    expected = ["红", "猫", "睡", ""] if characters else ["红猫 ", "睡"]
    assert keys == expected


@pytest.mark.slow
def test_simuleval_drives_and_scores_characters(run, tmp_path):
    pytest.importorskip("simuleval", reason="SimulEval is not installed")
    instances = log_of(run)
    for name, key in (("source", "source"), ("target", "reference")):
        texts = [getattr(one, key) for one in instances]
        texts = texts if key == "source" else [text.replace(" ", "") for text in texts]
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    agent = ["--agent-class", "simulmt.live.simuleval_agent.SimulmtAgent", "--checkpoint", run]
    files = ["--source", tmp_path / "source", "--target", tmp_path / "target"]
    unit = ["--eval-latency-unit", "char", "--sacrebleu-tokenizer", "char"]
    kinds = ["--source-type", "text", "--target-type", "text"]
    own = tmp_path / "own"
    own.mkdir()
    write_instances(own / "instances.log", instances)
    driven = ["simuleval.cli", *agent, *files, *unit, "--output", tmp_path / "theirs"]
    counted = ["simuleval.cli", "--score-only", "--output", own, *unit, *kinds]
    answers = type_in(driven, counted)
    assert [answer.status for answer in answers] == [0, 0], answers[0].err
    theirs = read_instances(tmp_path / "theirs" / "instances.log", BOTH)
    assert [one.prediction for one in theirs] == [one.prediction for one in instances]
    assert [one.delays for one in theirs] == [one.delays for one in instances]
    head, row = (text.split() for text in answers[1].out.splitlines()[-2:])
    found = score(instances)["simuleval", "word"]
    for name, value in zip(head, row[-len(head) :], strict=True):
        if name != "ATD":  # by rules for speech: docs/simuleval.md
            assert found[name].value == pytest.approx(float(value), abs=5e-4), name


@pytest.mark.parametrize(("writing", "unit"), [(SOURCE, "char"), (TARGET, "word")])
def test_boundaries_count_what_the_source_is_written_in(writing, unit):
    one = StreamInstance("d", "a b", (1, 2), boundaries=(Boundary(1, 1, 2),))
    found = score_streams([([Segment("a", 0, 1), Segment("b", 1, 1)], one)], writing=writing)
    assert all(f"|u:{unit}|" in score.signature for score in found["boundaries"].values())


def test_tokens_between_spaces_are_characters_of_a_target_in_characters():
    """A sentence in characters has no spaces, so it would be one token."""
    plain = Bleu("none", lowercase=True)
    assert plain.of(TARGET) == Bleu("char", lowercase=True)
    assert plain.of(SOURCE) == plain.of(Writing()) == plain
    one = Instance(0, "a b", "甲 乙 丙 丁 戊", "甲 乙 丙 丁 己", (1, 1, 2, 2, 2), writing=TARGET)
    assert score([one])["ictnlp", "subword"]["BLEU"].value > 50


def test_the_erasure_of_characters_says_so():
    one = Instance(0, "a", "甲", "甲", (1,), erased=1, writing=TARGET)
    assert score([one]).erasure.signature.startswith("NE|u:char|")
