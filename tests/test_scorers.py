"""Scores by another program: kept beside each log, resumed after kills, wrong ones in one line.

The program is a small script; its score is the share of the reference's words in the output.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import random
import shlex
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

from made_up import evaluate_run, make_decoded_run, make_instances, make_scores
from simulmt.decoding.instance import Instance
from simulmt.decoding.writing import Writing
from simulmt.errors import UserError
from simulmt.files.instances import read_instances, write_instances
from simulmt.options import construct
from simulmt.programs.score import score
from simulmt.programs.score_with import WithOptions, score_with
from simulmt.scoring.readers import READERS
from simulmt.scoring.segments import SegmentScores, texts
from simulmt.system.disk import read_record
from simulmt.system.ending import TERMINATED
from small_runs import configuration, soon

SCRIPT = """
import fcntl, os, signal, sys, time
how, lock, source, output, reference, scores = sys.argv[1:]
fcntl.flock(lock := open(lock, "a"), fcntl.LOCK_EX)
rows = [open(path, encoding="utf-8", newline="\\n").readlines() for path in (output, reference)]
if how == "slow":
    time.sleep(0.1)
if how == "helped" and not os.fork():
    time.sleep(60)
found = [len({*a.split()} & {*b.split()}) / len({*b.split()}) for a, b in zip(*rows, strict=True)]
text = "".join(f"{score}\\n" for score in found)
if how == "dead":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "wrong":
    sys.exit("first\\nno such model \\n\\n")
first, rest = text.split("\\n", 1)
texts = {"few": rest, "nan": "nan\\n" + rest, "rubbish": "loading\\n" + text}
if how != "nothing":
    open(scores, "w").write(texts.get(how, text))
"""
WORDS = "{source} {output} {reference} {scores}"


def overlap(instance: Instance) -> float:
    said, meant = {*instance.prediction.split()}, {*instance.reference.split()}
    return len(said & meant) / len(meant)


@pytest.fixture(autouse=True)
def _own_signals():
    """The verb handles them until its process ends."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two runs, and a further decoding of one of them."""
    (tmp_path / "fake.py").write_text(SCRIPT)
    for k in (1, 4):
        log = make_instances(0.3 / k, k, sentences=5)
        run = make_decoded_run(tmp_path / "runs" / f"{k}", "wait_k", {"mechanism.k": k}, log)
    place = evaluate_run(run, "k9", make_scores(1, 2), dials={"k": 9})
    write_instances(place / "instances.log", make_instances(0, 9, sentences=5))
    return tmp_path


def command(folder: Path, how: str = "well") -> str:
    return f"{shlex.join([sys.executable, f'{folder}/fake.py', how, f'{folder}/lock'])} {WORDS}"


def run(folder: Path, how: str = "well", **options: object) -> None:
    given = {"with": "overlap", "signature": "1.0", "command": command(folder, how)}
    usual = {"runs": folder / "runs", "reader": None}
    score_with(construct(WithOptions, {**usual, **given, **options}, ""))


def logs(folder: Path) -> list[Path]:
    return sorted((folder / "runs").rglob("instances.log"))


def found(log: Path, name: str = "overlap") -> SegmentScores:
    return read_record(log.parent / "segments" / f"{name}.json", SegmentScores)


def files(folder: Path) -> dict[Path, int]:
    places = sorted((folder / "runs").rglob("segments/*"))
    return {path: path.stat().st_mtime_ns for path in places}


def assert_scored(folder: Path) -> None:
    for log in logs(folder):
        kept, expected = found(log), [overlap(i) for i in read_instances(log)]
        assert kept.segments == pytest.approx(expected)
        assert kept.score.value == pytest.approx(sum(expected) / len(expected))
        assert kept.score.signature == "overlap|model:1.0"


def test_each_decoding_is_scored_once(folder, capsys):
    run(folder)
    assert_scored(folder)
    assert len(files(folder)) == 3
    before = files(folder)
    capsys.readouterr()
    run(folder, "wrong")  # nothing is left to score
    assert files(folder) == before
    assert capsys.readouterr().out.count(", already scored") == 3


def test_changed_text_and_another_model_are_scored_again(folder, capsys):
    run(folder)
    before, (log, *_) = files(folder), logs(folder)
    write_instances(log, make_instances(0.5, sentences=5))
    run(folder)
    assert_scored(folder)
    assert "scores other text" in capsys.readouterr().err
    changed = [path for path, time in files(folder).items() if time != before[path]]
    assert changed == [log.parent / "segments" / "overlap.json"]
    run(folder, signature="2")
    assert {found(log).score.signature for log in logs(folder)} == {"overlap|model:2"}
    changed[0].write_text("{")
    run(folder, signature="2")
    assert "absent or corrupt" in capsys.readouterr().err
    assert found(log).score.signature == "overlap|model:2"


def free(folder: Path) -> bool:
    """True if no program holds the lock."""
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_what_a_program_leaves_running_ends_with_it(folder):
    run(folder, "helped")
    assert soon(lambda: free(folder))
    assert_scored(folder)


def test_ten_kills_lose_nothing_and_leave_no_program(folder):
    draw, statuses = random.Random(1), set()
    for number in range(9):
        (folder / "runs" / f"other-{number}").mkdir()
        log = make_instances(number / 10, sentences=5, seed=number)
        write_instances(folder / "runs" / f"other-{number}" / "instances.log", log)
    signals = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT] * 4
    fork = multiprocessing.get_context("fork")  # imports nothing again
    done = files(folder)
    for number in signals[:10]:
        process = fork.Process(target=run, args=(folder, "slow"))
        process.start()
        time.sleep(draw.uniform(0.05, 0.4))
        os.kill(process.pid, number)
        process.join(30)
        statuses.add(process.exitcode)
        assert soon(lambda: free(folder)), "the program has outlived the command"
        assert files(folder).items() >= done.items()  # and nothing was scored twice
        done = files(folder)
    assert {-signal.SIGKILL, TERMINATED} <= statuses
    run(folder)
    assert_scored(folder)
    assert files(folder).items() >= done.items()
    assert not [path for path in files(folder) if path.suffix != ".json"]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("wrong", "exit status 1: no such model; the same command continues"),
        ("dead", "killed by SIGKILL .out of memory.*: no message"),
        ("nothing", "it wrote no {scores}"),
        ("few", "it gave 4 scores for 5 sentences"),
        ("nan", "score 1 is nan: it must be a finite number"),
        ("rubbish", "another form .ValueError: could not convert .*loading"),
    ],
)
def test_a_program_that_fails_is_named_in_one_line(how, message, folder):
    (first, *_) = logs(folder)
    run(folder, runs=first.parent)
    before = files(folder)
    with pytest.raises(UserError, match=message) as error:
        run(folder, how)
    assert "\n" not in str(error.value)
    assert f"{folder}/fake.py" in str(error.value)
    assert files(folder) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": "no-such-program {output} {scores}"}, "no-such-program is not a program"),
        ({"command": "cat {hyp} {scores}"}, "command has {hyp}; choose one of source, output, ref"),
        ({"command": "cat {output}"}, "needs {scores}, and {output} or {jsonl}"),
        ({"command": "cat {source} {scores}"}, "needs {scores}, and {output} or {jsonl}"),
        ({"command": "cat '{output} {scores}"}, "command=cat .*: No closing quotation"),
        ({"runs": "/nowhere"}, "runs=/nowhere has no instances.log of sentences"),
        ({"with": "BLEU"}, "with=BLEU is one of simulmt's figures"),
        ({"with": "a/b"}, "with is 'a/b'; it must be a name"),
        ({"reader": "bertscore"}, "reader is 'bertscore'; choose one of lines, comet"),
        ({"signature": None}, "signature has no value"),
        ({"signature": 1.1}, "signature is 1.1; it must be a valid string"),  # or 1.10?
    ],
)
def test_mistakes_end_in_one_line_before_any_work(options, message, folder):
    with pytest.raises(UserError, match=message) as error:
        run(folder, **options)
    assert "\n" not in str(error.value)
    assert not files(folder)


def test_no_shell_runs_and_paths_need_no_quotes(folder, monkeypatch):
    scratch = folder / "with spaces"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    runs = (folder / "runs").rename(folder / "my runs")
    line = command(folder).replace("well", "$(touch;x)")
    given = [f"runs='{runs}'", "with=overlap", "signature='1.0'", f'command="{line}"']
    score(configuration("score", *given))
    runs.rename(folder / "runs")
    assert_scored(folder)
    assert not [*scratch.iterdir()]


def test_the_two_forms_do_not_mix(folder):
    for given in (["runs=x", "log=y"], ["with=comet", "s=0.5"], []):
        with pytest.raises(
            UserError,
            match=r"two forms, and the options fit (both|neither): give log=FILE .* or runs=DIR",
        ):
            score(configuration("score", *given))


def test_documents_corrupt_logs_and_runs_that_were_set_aside_are_left_out(folder, capsys):
    kept, documents, other = logs(folder)
    (documents.parent / "document_scores.json").write_text("{}")
    other.parent.rename(other.parent.with_name("4@1"))
    for name, log in {"corrupt": "{}\n", "0 old": kept.read_text(), "empty": ""}.items():
        (folder / "runs" / name).mkdir()
        (folder / "runs" / name / "instances.log").write_text(log)
    (folder / "runs" / "0 old" / "test_scores.json").write_text("{}")
    run(folder)
    assert [*files(folder)] == [kept.parent / "segments" / "overlap.json"]
    assert (out := capsys.readouterr().out).count("left out: ") == 3
    assert "corrupt/instances.log, line 1" in out
    assert "empty/instances.log has no sentence" in out


def test_programs_read_characters_as_people_write_them(folder):
    three = "我 用 它", "他 说 好", "他 说 好"
    log = [Instance(0, *three, (1, 2, 3), writing=Writing(source=True, target=True))]
    shutil.rmtree(folder / "runs")
    make_decoded_run(folder / "runs" / "zh", "wait_k", {"mechanism.k": 1}, log)
    run(folder)
    (path,) = logs(folder)
    assert found(path).segments == (1,)
    assert json.loads(texts(log)["jsonl"])["source"] == "我用它"


def test_a_folder_whose_logs_are_all_left_out_is_an_error(folder):
    for log in logs(folder):
        log.write_text("{}\n")
    with pytest.raises(UserError, match=r"every instances\.log was left out"):
        run(folder)


def test_every_program_counts_the_same_lines():
    prediction = "a\u2028b c"
    log = [Instance(0, "x\r\ny", "c\x85d\n", prediction, (1, 1, 1)), Instance(1, "x", "y", "", ())]
    for name, text in texts(log).items():
        assert len(text.splitlines()) == text.count("\n") == 2, name
    rows = [json.loads(line) for line in texts(log)["jsonl"].splitlines()]
    assert rows[0] == {"source": "x y", "hypothesis": "a b c", "reference": "c d"}


def test_known_forms():
    # as comet-score 2.2.7, metricx24.predict and bleurt.score_files write them
    rows = [{"src": "a", "mt": "b", "ref": "c", "COMET": 0.5}, {"mt": "", "COMET": -0.25}]
    comet = json.dumps({"/tmp/x/output": rows}, indent=4)
    assert READERS["comet"].read(comet, 2) == [0.5, -0.25]
    metricx = '{"source": "a", "prediction": 2.5}\n{"source": "b", "prediction": 0}\n'
    assert READERS["metricx"].read(metricx, 2) == [-2.5, 0]
    assert READERS["bleurt"].read("0.75\n-1e-3\n", 2) == [0.75, -0.001]
    for name, text in {"comet": "[1]", "metricx": "{}", "lines": '{"COMET": 1}'}.items():
        with pytest.raises(UserError, match="another form"):
            READERS[name].read(text, 1)
    with pytest.raises(UserError, match="score 1 is nan"):
        READERS["comet"].read('{"x": [{"COMET": NaN}]}', 1)
