"""`translate.py` and `export.py` as a user meets them, on a briefly trained checkpoint."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simulmt.errors import UserError
from simulmt.files.instances import read_instances
from simulmt.live.translator import LONGEST, Translator
from simulmt.programs.export import export
from simulmt.programs.translate import translate
from simulmt.scoring.scores import Scores
from simulmt.system.disk import read_record
from small_runs import LONGER, ROOT, configuration, killed
from test_picture import data_of

pytestmark = pytest.mark.usefixtures("no_pictures")


def copy_of(run: Path, tmp_path_factory) -> Path:
    return Path(shutil.copytree(run, tmp_path_factory.mktemp("copy") / "run"))


@pytest.fixture(scope="module")
def finished(trained_once, tmp_path_factory) -> Path:
    return copy_of(trained_once(*LONGER, "mechanism=mma_il"), tmp_path_factory)


@pytest.fixture(scope="module", params=["mma_il", "soft"])
def any_run(request, finished, trained_once, tmp_path_factory) -> Path:
    """A run that streams, and one that reads the whole sentence first."""
    if request.param == "mma_il":
        return finished
    run = trained_once(*LONGER, "mechanism=soft", "decoding.beam=1")
    return copy_of(run, tmp_path_factory)


def say(capsys, *overrides: str) -> str:
    capsys.readouterr()
    translate(configuration("translate", *overrides))
    return capsys.readouterr().out


def test_a_file_is_translated_as_the_test_set_was(any_run, tmp_path, capsys):
    instances = read_instances(any_run / "instances.log")
    text = tmp_path / "in.txt"
    text.write_text("\n".join(["", *(i.source for i in instances), " ", "x"]), encoding="utf-8")
    lines = say(capsys, f"checkpoint={any_run}", f"input={text}").split("\n")
    assert lines[1 : len(instances) + 1] == [i.prediction for i in instances]
    assert (lines[0], lines[len(instances) + 1], lines[-1]) == ("", "", "")
    assert len(lines) == len(instances) + 4


def test_a_file_and_a_stream_are_translated_alike(any_run, tmp_path, capsys, monkeypatch):
    text = tmp_path / "in.txt"
    marked = b"\xef\xbb\xbfder\n\xe2\x96\x81\n"
    odd = "\ufffd\ufffd Haus\n\n\x00 \x1b[2J\tder\r\nMann  \n</s> <s>\n\u2581 \u2047 \n".encode()
    long = b"der Mann " * 25 + b"\n"
    content = marked + odd + long + "日本 ".encode() * 9 + b"\nder Mann sagt"
    text.write_bytes(content)
    batch = say(capsys, f"checkpoint={any_run}", f"input={text}")
    live = tmp_path / "live.txt"
    live.write_bytes(content.replace("\ufffd".encode(), b"\xff"))  # not UTF-8
    with live.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert say(capsys, f"checkpoint={any_run}") == batch
    with pytest.raises(UserError, match=r"live\.txt, line 3, .*UTF-8"):
        say(capsys, f"checkpoint={any_run}", f"input={live}")
    packed, bare = tmp_path / "in.txt.gz", tmp_path / "bare.txt"
    packed.write_bytes(gzip.compress(content))
    bare.write_bytes(content[3:])
    assert say(capsys, f"checkpoint={any_run}", f"input={packed}") == batch
    assert say(capsys, f"checkpoint={any_run}", f"input={bare}") == batch
    assert batch.splitlines()[1] == "", "U+2581 alone is no word"
    events = say(capsys, f"checkpoint={any_run}", f"input={packed}", "actions=true").splitlines()
    written: dict[int, list[str]] = {}
    for event in map(json.loads, events):
        written.setdefault(event["sentence"], [])
        if event["action"] == "WRITE":
            written[event["sentence"]].append(event["word"])
    assert [*written] == [*range(1, len(written) + 1)], "numbered as the lines are"
    assert [" ".join(written[number]) for number in written] == batch.splitlines()


@pytest.fixture(scope="module")
def long_text(any_run, tmp_path_factory) -> Path:
    """Many lines, some of them blank."""
    text = tmp_path_factory.mktemp("text") / "in.txt"
    sources = [i.source for i in read_instances(any_run / "instances.log")]
    text.write_text("\n".join(["", *sources, " ", *reversed(sources)] * 4), encoding="utf-8")
    return text


def test_a_file_is_translated_block_by_block(any_run, long_text, tmp_path, capsys, monkeypatch):
    asked = [f"checkpoint={any_run}", f"input={long_text}", "block=20"]
    printed, output = say(capsys, *asked), tmp_path / "out.txt"
    lines = printed.count("\n")
    assert say(capsys, *asked, f"output={output}") == f"{output}: {lines} lines translated\n"
    assert output.read_text() == printed
    content, modified = output.read_bytes(), output.stat().st_mtime_ns
    again = say(capsys, *asked, f"output={output}")
    assert again == f"{output}: {lines} lines are already translated\n"
    assert output.stat().st_mtime_ns == modified
    with pytest.raises(UserError, match="block=20, not block=30"):
        say(capsys, *asked, f"output={output}", "block=30")
    other = tmp_path / "other.txt"
    other.write_text("der Mann\n")
    with pytest.raises(UserError, match=r"input=.*, not .*input="):
        say(capsys, *asked, f"input={other}", f"output={output}")
    monkeypatch.chdir(tmp_path)
    for taken in (other, long_text, tmp_path):
        with pytest.raises(UserError, match=f"{taken} was not written by simulmt"):
            say(capsys, *asked, f"output={taken}")
    with pytest.raises(UserError, match=f"{tmp_path} was not written by simulmt"):
        say(capsys, *asked, "output=.")
    assert output.read_bytes() == content
    assert other.read_text() == "der Mann\n"
    output.write_bytes(b"mine\n" + content)
    with pytest.raises(UserError, match=r"out.txt is missing, or has changed"):
        say(capsys, *asked, f"output={output}")
    assert output.read_bytes() == b"mine\n" + content
    (tmp_path / "new.txt.json").write_text("{}")
    with pytest.raises(UserError, match=r"new.txt.json exists, and simulmt did not write it"):
        say(capsys, *asked, f"output={tmp_path / 'new.txt'}")


def test_a_beam_where_the_whole_sentence_is_read_first(
    finished, trained_once, long_text, tmp_path, capsys
):
    soft = trained_once(*LONGER, "mechanism=soft", "decoding.beam=1")
    asked = [f"checkpoint={soft}", f"input={long_text}"]
    printed, output = say(capsys, *asked, "beam=3"), tmp_path / "out.txt"
    say(capsys, *asked, "beam=3", f"output={output}")
    assert output.read_text() == printed
    with pytest.raises(UserError, match="beam=3, not beam=1"):
        say(capsys, *asked, f"output={output}")
    for place, more, said in (
        (finished, [], "mechanism=mma_il"),
        (soft, ["policy=wait_k"], "which decides word by word"),
    ):
        with pytest.raises(UserError, match=f"beam=3 .*{said}"):
            say(capsys, *asked[1:], f"checkpoint={place}", "beam=3", *more)


def started(run: Path, *options: str) -> subprocess.Popen[str]:
    """The command in a process, with pipes."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(
        [sys.executable, "-m", "simulmt", "translate", f"checkpoint={run}", *options],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])},
        text=True,
        **pipes,
    )


def test_a_slow_reader_gets_all_and_one_that_leaves_ends_only_its_session(finished):
    instances = read_instances(finished / "instances.log")[:5]
    lines = [
        json.dumps({"emission_time": n, "text": i.source, "is_final": True})
        for n, i in enumerate(instances)
    ]
    with started(finished, "format=jsonl") as left, started(finished, "format=jsonl") as slow:
        try:
            left.stdin.write(f"{lines[0]}\n")
            left.stdin.flush()
            first = json.loads(left.stdout.readline())  # before the input ends
            left.stdout.close()
            left.stdin.write(f"{lines[1]}\n")
            left.stdin.flush()
            assert (left.wait(60), left.stderr.read()) == (0, "")
            out, err = slow.communicate("\n".join([*lines[:2], "", *lines[2:]]), timeout=60)
        finally:
            left.kill()
            slow.kill()
    found = [json.loads(line) for line in out.splitlines()]
    assert found[0] == first
    assert [line["text"].strip() for line in found] == [i.prediction for i in instances]
    assert (slow.returncode, err.count("\n")) == (0, 1)
    assert err.startswith("warning: line 3 is skipped: ")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_time_it_ends_the_same(seed, finished, tmp_path, capsys):
    text, output = tmp_path / "in.txt", tmp_path / "out.txt"
    sources = [i.source for i in read_instances(finished / "instances.log")]
    text.write_text("\n".join([*sources, ""] * 30), encoding="utf-8")
    asked = [f"checkpoint={finished}", f"input={text}", "block=15", "device=cpu"]
    unfinished = tmp_path / "out.txt.unfinished"
    killed(["translate", *asked, f"output={output}"], seed, unfinished.exists)
    assert output.read_text() == say(capsys, *asked)
    assert not unfinished.exists()


def test_the_same_picture_of_a_file_and_of_a_stream(finished, tmp_path, capsys, monkeypatch):
    text, pages = tmp_path / "in.txt", [tmp_path / "one.html", tmp_path / "other.html"]
    text.write_text("\nder Mann sagt \n\u2581\nder</script>\n")
    say(capsys, f"checkpoint={finished}", f"input={text}", f"picture={pages[0]}")
    with text.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        say(capsys, f"checkpoint={finished}", f"picture={pages[1]}")
    one, other = (page.read_bytes() for page in pages)
    assert one == other
    sentences = data_of(one.decode())["sentences"]
    assert [sentence["line"] for sentence in sentences] == [2, 4]
    assert sentences[0]["source"] == ["der", "Mann", "sagt", "</s>"]
    pieces = ("unit=subword", f"checkpoint={finished}", f"input={text}", f"picture={pages[0]}")
    say(capsys, *pieces)
    first, _ = data_of(pages[0].read_text(encoding="utf-8"))["sentences"]
    assert "".join(first["source"]) == "▁der▁Mann▁sagt</s>"


def test_a_line_that_is_too_long_is_refused_by_number_or_cut(finished, tmp_path, capsys):
    text = tmp_path / "in.txt"
    text.write_text("\nder Mann\n" + "x " * (LONGEST + 1) + "\n")
    with pytest.raises(UserError, match=r"line 3 of input has [\d,]+ subwords, .*4,096"):
        translate(configuration("translate", f"checkpoint={finished}", f"input={text}"))
    translator = Translator.load(finished, "cpu")
    translator.stream.done = True  # a sentence of this length takes a while
    for _ in range(LONGEST - 1):
        translator.read("x" * 3)
        if translator.full:
            break
    assert translator.full
    translator.reset()
    assert not translator.full


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["input=nowhere.txt"], "nowhere.txt cannot be read"),
        (["input=/dev/zero"], "input is /dev/zero, a device or a named pipe"),
        (["output=x"], "output=x .*input=FILE"),
        (["beam=0"], "beam is 0"),
        (["beam=2", "actions=true", "input=x"], "beam=2 .*input=FILE"),
        (["sentences=model", "input=x"], "input=x with sentences=model.* `< FILE`"),
        (["format=jsonl", "picture=x.png"], "picture=x.png with format=jsonl"),
        (["format=jsonl", "actions=true"], "actions=true with format=jsonl"),
        (["format=json"], "format is 'json'"),
        (["computation_aware=true"], "add format=jsonl"),
        (["sentences=model"], "cut=pointer: .*; choose cut=likelihood"),
        (["sentences=model", "policy=retranslation"], "policy=retranslation takes words back"),
        (["picture=x.gif"], "must end in one of .png"),
        (["picture=x.png", "input=x", "beam=3"], "picture=x.png with beam=3: .* greedily"),
        (["picture=no/x.png", "checkpoint=nowhere"], "no/x.png cannot be written"),
    ],
)
def test_bad_choices_are_refused(finished, overrides, message):
    chosen = [f"checkpoint={finished}", *overrides]
    with pytest.raises(UserError, match=message):
        translate(configuration("translate", *chosen))


def test_an_exported_folder_translates_alike_elsewhere(any_run, tmp_path, capsys):
    given_away, elsewhere = tmp_path / "given_away", tmp_path / "elsewhere"
    export(configuration("export", f"checkpoint={any_run}", f"to={given_away}"))
    files = {path.name for path in given_away.iterdir()}
    assert files == {
        "model.safetensors",
        "config.json",
        "subwords.model",
        "provenance.json",
        "scores.json",
        "README.md",
    }
    config = json.loads((given_away / "config.json").read_text())["config"]
    assert {*config} == {
        *("data", "mechanism", "model", "optim", "objective", "decoding"),
        *("lambda", "lambda_var", "seed"),
    }
    given_away.rename(elsewhere)
    text = tmp_path / "in.txt"
    text.write_text("der Mann sagt etwas\n")
    there, here = (
        say(capsys, f"checkpoint={place}", f"input={text}") for place in (elsewhere, any_run)
    )
    assert there == here
    words = read_record(elsewhere / "scores.json", Scores)["paper", "word"]
    assert words["DAL"].form() in (elsewhere / "README.md").read_text()
    with pytest.raises(UserError, match="is not empty"):
        export(configuration("export", f"checkpoint={any_run}", f"to={elsewhere}"))


def test_a_file_is_not_already_translated_by_another_decision(trained_once, tmp_path):
    (tmp_path / "in.txt").write_text("der Mann schläft .\n", encoding="utf-8")
    run, other = trained_once("mechanism=wait_k"), trained_once("mechanism=multi_path")
    asked = [f"input={tmp_path / 'in.txt'}", f"output={tmp_path / 'out.txt'}", "device=cpu"]
    translate(configuration("translate", f"checkpoint={run}", *asked))
    for place, changed, named in (
        (run, ["++dial.k=1"], "dial"),
        (run, ["policy=retranslation"], "policy"),
        (other, [], "model"),
    ):
        with pytest.raises(UserError, match=f"was written with {named}=.*, not {named}="):
            translate(configuration("translate", f"checkpoint={place}", *asked, *changed))
