"""Documents through `train.py` and `evaluate.py`: streams, and sentences that others end."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import sys
from hashlib import sha256
from itertools import accumulate
from pathlib import Path

import pytest

import zoo
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.cuts import CUTS, cut_of
from simulmt.decoding.document import DocumentStream
from simulmt.decoding.policies import HoldN
from simulmt.errors import UserError
from simulmt.files.instances import read_instances, read_streams
from simulmt.files.run_directory import DOCUMENT_SCORES
from simulmt.programs.evaluate import evaluate
from simulmt.programs.translate import translate
from simulmt.saved import checkpoint
from simulmt.system.disk import read_json
from small_runs import LONGER, TINY, configuration

SIZE = 5  # sentences of a document
pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> Path:
    """Documents whose sources have neither marks nor capitals."""
    folder = tmp_path_factory.mktemp("documents")
    for name, split in verbfinal(1, 300, 12, 12).splits.items():
        words = [[w for w in line.lower().split() if w not in {".", ","}] for line in split.sources]
        for language, lines in (("de", map(" ".join, words)), ("en", split.targets)):
            (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines))
        ids = (f"{name}-{place // SIZE}\n" for place in range(len(split)))
        (folder / f"{name}.docid").write_text("".join(ids))
    return folder


def options(texts: Path) -> list[str]:
    chosen = ["data=text", f"data.root={texts}", "data.source=de", "data.target=en"]
    return [*chosen, "data.documents=true", "data.subwords.size=400", "data.batch_tokens=600"]


@pytest.fixture(scope="module")
def trained(texts, tmp_path_factory) -> Path:
    from simulmt.programs.train import train

    folder = tmp_path_factory.mktemp("run")
    own = [one for one in TINY if not one.startswith("data.")]
    chosen = [*own, *LONGER, *options(texts), "model.boundaries=true", "mechanism=wait_k"]
    chosen += ["data.history=40", "data.prefixes=true"]
    train(configuration("train", *chosen, f"cache={folder / 'cache'}"), str(folder / "run"))
    return folder / "run"


@pytest.fixture(autouse=True)
def brief(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier limit, except for one cut: a model after so few updates rarely ends early."""
    if "[pointer]" not in request.node.name:
        zoo.limit_length(monkeypatch)


def evaluated(run: Path, name: str, *changes: str) -> Path:
    evaluate(configuration("evaluate", f"checkpoint={run}", *changes))
    return run / "evaluation" / name


@pytest.mark.parametrize("cut", CUTS)
def test_documents_in_a_batch_are_live_streams(trained, texts, cut):
    folder = evaluated(
        trained, f"test-best-sentencesmodel-cut{cut}", "sentences=model", f"cut={cut}"
    )
    found = read_streams(folder / "instances.log")
    assert [one.source for one in found] == [f"test-{n}" for n in range(3)]
    assert {"streaming", "longyaal", "streamlaal"} <= read_json(folder / DOCUMENT_SCORES).keys()
    equal_live_streams(trained, texts, found, cut)


def equal_live_streams(run, texts, found, cut, policy=None):
    known = checkpoint.load(run)
    model, lines = known.build(), (texts / "test.de").read_text().splitlines()
    assert model.history == 40
    for number, one in enumerate(found):
        words = " ".join(lines[SIZE * number : SIZE * (number + 1)]).split()
        stream = DocumentStream(model, CUTS[cut], policy)
        for word in words:
            stream.read_word(known.subwords.encode(word))
        stream.read_word([model.vocabulary.eos])
        segments = stream.ended()
        decoded = [known.subwords.decode(segment.written.tokens) for segment in segments]
        assert one.prediction.split() == " ".join(decoded).split()
        assert one.text.split() == words
        assert [b.read for b in one.boundaries] == [segment.read for segment in segments]
        assert one.boundaries[-1].split == len(words)


def test_a_policy_ends_sentences(trained, texts, monkeypatch):
    # a briefly trained model rarely ends a draft
    zoo.limit_length(monkeypatch, lambda read: read // 4 + 4)
    chosen = ["sentences=model", "policy=hold_n", "policy.n=0"]
    folder = evaluated(trained, "test-best-policyhold_n-n0-sentencesmodel-cutpointer", *chosen)
    found = read_streams(folder / "instances.log")
    equal_live_streams(trained, texts, found, "pointer", HoldN(n=0))
    with pytest.raises(UserError, match="policy=retranslation takes words back"):
        evaluated(trained, "", "sentences=model", "policy=retranslation")


def test_documents_of_the_same_name_do_not_replace_others(trained, texts, tmp_path):
    text = {f"test.{end}": (texts / f"test.{end}").read_text() for end in ("de", "en", "docid")}
    for name, content in text.items():
        (tmp_path / name).write_text(content)
    paths = [f"{tmp_path}/test.{end}" for end in ("de", "en", "docid")]
    chosen = ["text=mine", "sentences=lines"]
    chosen += [f"{k}={p}" for k, p in zip(("source", "target", "documents"), paths, strict=True)]
    folder = evaluated(trained, "mine-best-sentenceslines", *chosen)
    assert evaluated(trained, folder.name, *chosen) == folder
    log = (folder / "instances.log").read_bytes()
    for side, old, new in (("de", "das", "der"), ("en", "the", "a")):
        (tmp_path / f"test.{side}").write_text(text[f"test.{side}"].replace(old, new))
        with pytest.raises(UserError, match=r"sentenceslines has other text: .* text=NAME"):
            evaluated(trained, folder.name, *chosen)
        assert (folder / "instances.log").read_bytes() == log
        (tmp_path / f"test.{side}").write_text(text[f"test.{side}"])


def test_translate_tells_what_evaluate_decodes(trained, tmp_path, capsys, monkeypatch):
    folder = evaluated(trained, "test-best-sentencesmodel-cutpointer", "sentences=model")
    found = read_streams(folder / "instances.log")[0]
    words = found.text.split()

    def printed(text: str, *options: str) -> list[str]:
        (tmp_path / "in").write_text(text)
        capsys.readouterr()
        with (tmp_path / "in").open() as file:
            monkeypatch.setattr(sys, "stdin", file)
            asked = [f"checkpoint={trained}", "sentences=model", *options]
            translate(configuration("translate", *asked))
        return capsys.readouterr().out.splitlines()

    text = "\n".join([" ".join(words[:7]), "", *words[7:]])
    events = [*map(json.loads, printed(text, "actions=true"))]
    written = [event for event in events if event["action"] == "WRITE"]
    assert [event["word"] for event in written] == found.prediction.split()
    assert tuple(event["read"] for event in written) == found.delays
    assert [event["word"] for event in events if event["action"] == "READ"] == words
    ends = [event for event in events if event["action"] == "END"]
    assert [end["read"] for end in ends] == [boundary.read for boundary in found.boundaries]
    assert [*accumulate(end["length"] for end in ends)] == [b.split for b in found.boundaries]
    assert printed("\n\n") == []
    flush = json.dumps({"emission_time": 2, "is_final": True})
    said = json.dumps({"emission_time": 1, "text": words[0], "end": 0.5})
    (first, last) = map(json.loads, printed(f"{said}\n{flush}\n", "format=jsonl"))
    assert (first["end"], last["end"]) == (0.5, 0.5)
    assert " ".join(printed(words[0])) == f"{first['text']}{last['text']}".strip()


def test_told_sentences_are_translated_one_by_one(trained):
    evaluate(configuration("evaluate", f"checkpoint={trained}"))
    sentences = read_instances(trained / "evaluation" / "test-best" / "instances.log")
    folder = evaluated(trained, "test-best-sentenceslines", "sentences=lines")
    documents = read_streams(folder / "instances.log")
    whole = " ".join(sentence.prediction for sentence in sentences)
    assert " ".join(one.prediction for one in documents).split() == whole.split()
    assert read_json(folder / DOCUMENT_SCORES)["boundaries"]["F1"]["value"] == 100


def named(path):
    """Two files of one name have different folders, unless they are the same."""
    return f"{path.stem}-{sha256(path.read_bytes()).hexdigest()[:8]}"


def test_what_precedes_a_sentence_comes_from_a_file_or_its_document(trained, texts, tmp_path):
    lines, translated = ((texts / f"test.{x}").read_text().splitlines() for x in ("de", "en"))
    pairs = [f"{x} ||| {y}" for x, y in zip(lines, translated, strict=True)]
    empty, one, names = (tmp_path / name for name in ("empty", "one", "names"))
    empty.write_text("\n" * len(lines))
    one.write_text("".join(f"{before}\n" for before in ["", *pairs[:-1]]))
    names.write_text(f"{lines[0]}\t \t{lines[1]}\n" * len(lines))
    found = {}
    for path in (empty, one, names):
        folder = evaluated(trained, f"test-best-context{named(path)}", f"context={path}")
        found[path] = read_instances(folder / "instances.log")
        assert read_json(folder / "scores.json")["decoding"]["context"] == str(path)
    evaluate(configuration("evaluate", f"checkpoint={trained}"))
    plain = read_instances(trained / "evaluation" / "test-best" / "instances.log")
    assert found[empty] == plain
    assert found[one][0] == plain[0]
    folder = evaluated(
        trained, "test-best-sentenceslines+history", "sentences=lines", "history=true"
    )
    documents = read_streams(folder / "instances.log")
    for number, document in enumerate(documents):  # nothing precedes the first sentence
        first = plain[SIZE * number].prediction.split()
        assert document.prediction.split()[: len(first)] == first
    (tmp_path / "short").write_text("a\n")
    with pytest.raises(UserError, match=r"context=.*short has 1 lines but the text has 12"):
        evaluated(trained, "", f"context={tmp_path / 'short'}")


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (["history=true"], "history=true with sentences=None"),
        (["history=true", "sentences=model"], "given sentence ends"),
        (["context=a", "sentences=lines"], "sentences=lines and context=a"),
        (["context=a", "word_ms=9"], r"word_ms=9 and context=a: these options exclude each other"),
        (["context=a", "beam=2"], "context or history, which decode greedily"),
    ],
)
def test_contexts_that_have_no_effect_are_rejected(chosen, message):
    with pytest.raises(UserError, match=message):
        evaluate(configuration("evaluate", "checkpoint=a", *chosen))


def test_sentences_end_at_punctuation_or_as_in_a_file(trained, texts, tmp_path):
    folder = evaluated(trained, "test-best-sentencespunctuation", "sentences=punctuation")
    for one in read_streams(folder / "instances.log"):  # without marks, after 40 words
        words = len(one.text.split())
        assert [b.split for b in one.boundaries] == [*range(40, words, 40), words]
    (tmp_path / "again.de").write_text((texts / "test.de").read_text())
    name = f"test-best-sentences{named(tmp_path / 'again.de')}"
    again = evaluated(trained, name, f"sentences={tmp_path / 'again.de'}")
    lines = evaluated(trained, "test-best-sentenceslines", "sentences=lines")
    for name in ("instances.log", DOCUMENT_SCORES):
        assert (again / name).read_bytes() == (lines / name).read_bytes()
    (tmp_path / "other.de").write_text((texts / "valid.de").read_text())
    with pytest.raises(UserError, match="it must have the words of the source"):
        evaluated(trained, "", f"sentences={tmp_path / 'other.de'}")


def test_one_model_is_scored_with_and_without_marks_and_capitals(tmp_path):
    """Documents of the built-in data, and the same test set under another name."""
    from simulmt.programs.train import train

    chosen = ["data.documents=true", "data.join=[4,8]", "data.unpunctuated=0.5"]
    small = [*TINY, *LONGER, *chosen, "data.lowercased=0.5", "mechanism=wait_k"]
    run = tmp_path / "run"
    train(configuration("train", *small, f"cache={tmp_path / 'cache'}"), str(run))
    lost = ["unpunctuated=true", "lowercased=true"]
    with_marks = evaluated(run, "test-best-sentenceslines", "sentences=lines")
    without = evaluated(
        run, "test_unpunctuated_lowercased-best-sentenceslines", "sentences=lines", *lost
    )
    known = checkpoint.load(run).own_split("test", None)
    sides = read_streams(with_marks / "instances.log"), read_streams(without / "instances.log")
    for name, one, other in zip(known.documents, *sides, strict=True):
        assert one.source == other.source == name
        words = one.text.lower().split()
        assert other.text.split() == [word for word in words if word not in {".", ","}]
    for folder, reads_on in ((with_marks, False), (without, True)):
        oracle = read_json(folder / DOCUMENT_SCORES)["oracle"]
        assert (oracle["read_beyond"]["value"] > 0) == reads_on
    evaluated(run, "", *lost)
    sentences = run / "evaluation" / "test_unpunctuated_lowercased-best"
    assert read_json(sentences / "scores.json")["decoding"]["split"] == sentences.name[:-5]


def test_a_report_lists_documents(trained, tmp_path):
    folder = evaluated(trained, "test-best-sentenceslines", "sentences=lines")
    aside = trained.parent / "aside@1" / "evaluation" / folder.name
    shutil.copytree(folder, aside)
    from simulmt.analysis.report import report
    from simulmt.programs.plain import plain as values

    report(values(configuration("report", f"runs={trained.parent}", f"to={tmp_path}")))
    with (tmp_path / "documents.csv").open() as file:
        rows = {row["folder"]: row for row in csv.DictReader(file)}
    scores = read_json(folder / DOCUMENT_SCORES)
    row = rows[folder.relative_to(trained.parent).as_posix()]
    assert float(row["streaming_DAL"]) == scores["streaming"]["DAL"]["value"]
    assert float(row["boundaries_F1"]) == 100
    assert not [name for name in rows if name.startswith("aside")]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    shown = page.partition("<h2>Documents</h2>")[2]
    assert f'<data value="{row["streaming_DAL"]}">' in shown


def test_mistakes_are_named(trained, trained_once, texts, tmp_path):
    plain = trained_once(*LONGER, "mechanism=wait_k")
    with pytest.raises(UserError, match=r"data\.history=0, which sees no earlier sentences: leave"):
        evaluated(plain, "", f"context={texts / 'test.de'}")
    with pytest.raises(UserError, match="needs documents: give documents=FILE"):
        evaluated(plain, "", "sentences=model")
    files = [f"source={texts / 'test.de'}", f"target={texts / 'test.en'}"]
    given = [*files, f"documents={texts / 'test.docid'}", "text=mine"]
    with pytest.raises(UserError, match="cut=reading has no effect without sentences=model"):
        evaluated(trained, "", "sentences=lines", "cut=reading")
    with pytest.raises(UserError, match="sentences=line is not a file; give one, or one of model,"):
        evaluated(trained, "", "sentences=line")
    offline = trained_once(*LONGER, "mechanism=soft")
    with pytest.raises(UserError, match="soft reads the whole source first"):
        evaluated(offline, "", "sentences=model", *given)
    drafted = ["policy=local_agreement", "beam=2", "cut=likelihood"]
    with pytest.raises(UserError, match="leave out beam"):
        evaluated(offline, "", "sentences=model", *given, *drafted)
    several = zoo.model(zoo.options("hmt"))
    with pytest.raises(UserError, match=r"cut=likelihood with mechanism=hmt.*choose cut=reading"):
        cut_of("likelihood", several, None)
    with pytest.raises(UserError, match="choose cut=likelihood"):
        evaluated(plain, "", "sentences=model", *given)
    with pytest.raises(UserError, match="belongs to source=FILE"):
        evaluated(trained, "", f"documents={texts / 'test.docid'}")
    with pytest.raises(UserError, match="has no effect without sentences"):
        evaluated(trained, "", *given)
    from simulmt.programs.plain import plain as values
    from simulmt.programs.run_spec import RunSpec

    for chosen, message in (
        (["model.boundaries=true"], "set data.documents=true"),
        ([*options(texts), "model.boundaries=true", "mechanism=hmt"], "does not train it"),
    ):
        with pytest.raises(UserError, match=message):
            RunSpec.of(values(configuration("train", *chosen)))
    (tmp_path / "train.de").write_text("a\n\nb\n")
    (tmp_path / "train.en").write_text("a\nb\nc\n")
    (tmp_path / "train.docid").write_text("1\n1\n1\n")
    from simulmt.parts.builders import build_corpus

    group = values(configuration("train", *options(tmp_path)))["data"]
    with pytest.raises(UserError, match="1 lines of a document have an empty side"):
        build_corpus(group).splits["train"]
    (tmp_path / "train.de").write_text("a\na\nb\n")
    packed = gzip.compress((tmp_path / "train.docid").read_bytes())
    (tmp_path / "train.docid").unlink()
    (tmp_path / "train.docid.gz").write_bytes(packed)
    assert build_corpus(group).splits["train"].documents == {"1": range(3)}
