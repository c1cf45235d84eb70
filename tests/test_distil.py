"""`simulmt distil`: what it writes, and that it comes to the same in any number of goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from simulmt.data.encoded import EncodedSplit
from simulmt.data.reader import read_text
from simulmt.decoding.search import Search
from simulmt.errors import UserError
from simulmt.live.lines import LineTranslator
from simulmt.programs import distil as program
from simulmt.programs.distil import RECORD, distil
from simulmt.programs.train import train
from simulmt.saved import checkpoint
from simulmt.scoring.split_decoder import SplitDecoder
from small_runs import ROOT, SMALL, configuration, killed

pytestmark = pytest.mark.usefixtures("no_pictures")
SIDES = ("train.de", "train.en")
PAIRS = 300


@pytest.fixture(scope="module")
def teacher(trained_once) -> Path:
    return trained_once("mechanism=soft", "decoding.beam=2", "data.test=24")


@pytest.fixture
def work(teacher, tmp_path, capsys):
    """Returns a function that distils into a folder and returns what was printed."""

    def run(folder: Path, *overrides: str) -> str:
        usual = [f"checkpoint={teacher}", f"to={folder}", f"cache={tmp_path / 'cache'}"]
        usual += ["beam=2", "processes=1", "block=40"]
        distil(configuration("distil", *usual, *overrides))  # the last override counts
        return capsys.readouterr().out

    return run


@pytest.fixture(scope="module")
def whole(teacher, tmp_path_factory) -> Path:
    """The corpus of one go, which nobody may change."""
    folder = tmp_path_factory.mktemp("whole") / "corpus"
    chosen = [f"checkpoint={teacher}", f"to={folder}", f"cache={folder.parent / 'cache'}"]
    distil(configuration("distil", *chosen, "beam=2", "processes=1", "block=40"))
    return folder


def lines(folder: Path, name: str) -> list[str]:
    return (folder / name).read_text(encoding="utf-8").split("\n")[:-1]


def same(one: Path, other: Path) -> bool:
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in SIDES)


def test_it_writes_what_the_test_set_would_be_decoded_to(teacher, tmp_path, work):
    folder = tmp_path / "corpus"
    work(folder, "block=1000", "batch_tokens=600")
    trained = checkpoint.load(teacher)
    split = trained.own_split("train", None)
    encoded = EncodedSplit.of(
        (ids[:-1] for ids in EncodedSplit.encode(split, trained.subwords).sources),
        ([] for _ in split.sources),
        trained.subwords.vocabulary,
    )
    decoder = SplitDecoder(split, encoded, trained.subwords, 600, Search(2, 0.6))
    model = trained.build()
    predictions = [instance.prediction for instance in decoder(model, model.begins.device)]
    assert lines(folder, "train.en") == predictions
    assert lines(folder, "train.de") == [*split.sources]
    assert len({*predictions}) > 1


def test_the_folder_is_a_corpus_of_text(teacher, whole):
    corpus = read_text(str(whole), "de", "en", "train", "valid", "test", 150, "distilled")
    own = checkpoint.load(teacher).own_corpus(["train", "valid", "test"], None)
    assert [*corpus.splits["train"].sources] == [*own.splits["train"].sources]
    for name in ("valid", "test"):
        assert corpus.splits[name].sha256 == own.splits[name].sha256
    assert {path.name for path in whole.iterdir()} == {
        *(f"{split}.{language}" for split in corpus.splits for language in ("de", "en")),
        RECORD,
    }
    record = json.loads((whole / RECORD).read_text())
    assert (record["job"]["pairs"], record["empty"], record["text"]) == (PAIRS, 0, "verbfinal")


def test_a_monotonic_search_that_sees_all_is_the_ordinary_one(whole, tmp_path, work):
    work(tmp_path / "all", "kind=monotonic", "k=1000")
    assert same(tmp_path / "all", whole)
    work(tmp_path / "early", "kind=monotonic", "k=1")
    assert not same(tmp_path / "early", whole)
    assert len(lines(tmp_path / "early", "train.en")) == PAIRS


def test_interrupted_work_goes_on_and_ends_the_same(whole, tmp_path, work, monkeypatch):
    folder, translate, blocks = tmp_path / "corpus", LineTranslator.__call__, []

    def interrupted(self: LineTranslator, lines: list[str]) -> list[str]:
        blocks.append(len(lines))
        if len(blocks) in (3, 5):
            raise KeyboardInterrupt
        return translate(self, lines)

    monkeypatch.setattr(LineTranslator, "__call__", interrupted)
    shard = folder / ".shards" / "0"
    for there in (80, 120):
        with pytest.raises(KeyboardInterrupt, match="the same command continues"):
            work(folder)
        assert shard.read_bytes().count(b"\n") == there
    assert not (folder / "train.en").exists()
    content = shard.read_bytes()
    shard.write_bytes(content[: len(content) - 7])  # as a kill may leave
    assert f"{shard}: 119 lines are already there" in work(folder)
    assert blocks == [40] * 10 + [20], "the third one was translated again, for its last line"
    assert same(folder, whole)
    before = (folder / RECORD).stat().st_mtime_ns
    assert "to train on it" in work(folder)
    assert (folder / RECORD).stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "killed",
    [
        "train.en",
        *(pytest.param(f, marks=pytest.mark.slow) for f in ("train.de", "valid.de", RECORD)),
    ],
)
def test_a_kill_while_blocks_are_joined_loses_nothing(killed, whole, tmp_path, work, monkeypatch):
    folder, replacing, write_json = tmp_path / "corpus", program.replacing, program.write_json

    def stop(path: Path, *content: object):
        if path.name == killed:
            (folder / f"{killed}.0.tmp").touch()  # as a kill leaves
            raise KeyboardInterrupt
        return (write_json if content else replacing)(path, *content)

    with monkeypatch.context() as patch:
        patch.setattr(program, "replacing", stop)
        patch.setattr(program, "write_json", stop)
        with pytest.raises(KeyboardInterrupt):
            work(folder)
    work(folder)
    assert same(folder, whole)
    assert {path.name for path in folder.iterdir()} == {path.name for path in whole.iterdir()}


def test_another_command_is_rejected(whole, tmp_path, work):
    with pytest.raises(UserError, match=r"written with beam=2, not beam=3"):
        work(whole, "beam=3")
    (tmp_path / "corpus" / "mine").mkdir(parents=True)
    with pytest.raises(UserError, match="holds other files"):
        work(tmp_path / "corpus")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file cannot be written"):
        work(tmp_path / "file")


def test_the_last_of_several_processes_joins_their_shards(whole, tmp_path, work, monkeypatch):
    folder = tmp_path / "corpus"
    monkeypatch.setenv("WORLD_SIZE", "3")
    for rank in (2, 0):
        monkeypatch.setenv("RANK", str(rank))
        said = work(folder)
    assert "180 of 300 pairs: the process that ends last joins them" in said
    assert not (folder / RECORD).exists()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="processes=3, not processes=2"):
        work(folder)
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("RANK", "1")
    assert "to train on it" in work(folder)
    assert same(folder, whole)


def test_references_follow_the_hypotheses(teacher, whole, tmp_path, work):
    assert "then the 300 original pairs" in work(tmp_path / "both", "references=true")
    split = checkpoint.load(teacher).own_split("train", None)
    assert lines(tmp_path / "both", "train.de") == [*split.sources] * 2
    assert lines(tmp_path / "both", "train.en") == [*lines(whole, "train.en"), *split.targets]


def test_files_are_translated_instead(whole, tmp_path, work):
    text = [lines(whole, name)[:50] for name in SIDES]
    for name, side in zip(("a.de", "a.en"), text, strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in ["", "x " * 9, *side]))
    files = [f"source={tmp_path / 'a.de'}", f"target={tmp_path / 'a.en'}", "references=true"]
    said = work(tmp_path / "corpus", *files, "max_words=8")
    pairs = zip(*text, strict=True)
    kept = [(a, b) for a, b in pairs if max(len(a.split()), len(b.split())) <= 8]
    assert 0 < len(kept) < 50
    assert lines(tmp_path / "corpus", "train.de") == [a for a, _ in kept] * 2
    assert lines(tmp_path / "corpus", "train.en")[len(kept) :] == [b for _, b in kept]
    assert f"1 empty, {51 - len(kept)} too long" in said
    assert "data.valid=STEM" in said
    assert not (tmp_path / "corpus" / "valid.de").exists()


def test_what_is_too_long_for_the_teacher_has_no_translation(tmp_path, work, monkeypatch):
    load = checkpoint.load

    def brief(place: Path):
        trained = load(place)
        trained.config["data"]["batch_tokens"] = 14
        return trained

    monkeypatch.setattr(checkpoint, "load", brief)
    said = work(tmp_path / "corpus", "batch_tokens=600")
    empty = sum(not line for line in lines(tmp_path / "corpus", "train.en"))
    assert 0 < empty < PAIRS
    assert f"{empty} translations are empty; data=text drops these pairs" in said


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["checkpoint=nowhere"], "no checkpoint at nowhere"),
        (["k=3"], "k=3 with kind=sequence: set kind=monotonic"),
        (["kind=monotonic", "k=0"], "k is 0"),
        (["kind=parallel"], "kind is 'parallel'"),
        (["beam=0"], "beam is 0"),
        (["beam=2000"], "beam is 2000"),
        (["length_penalty=-1"], "length_penalty is -1"),
        (["source=nowhere.de"], "nowhere.de cannot be read"),
        (["source=nowhere.de", "references=true"], "references=True with source=nowhere.de"),
        (["target=nowhere.en"], "target=nowhere.en"),
        (["processes=0"], "processes is 0"),
        (["block=0"], "block is 0"),
        (["device=tpu"], "device is 'tpu'"),
    ],
)
def test_bad_choices_end_in_one_line_and_leave_nothing(overrides, message, tmp_path, work):
    with pytest.raises(UserError, match=message):
        work(tmp_path / "corpus", *overrides)
    assert not (tmp_path / "corpus").exists()


def test_what_streams_is_no_teacher(trained_once, tmp_path, work):
    student = trained_once("mechanism=mma_il", "lambda=0.2")
    with pytest.raises(UserError, match=r"mechanism=mma_il, which writes before .* mechanism=soft"):
        work(tmp_path / "corpus", f"checkpoint={student}")


def test_an_imported_teacher_needs_a_text(tmp_path, work, monkeypatch):
    load = checkpoint.load

    def imported(place: Path):
        trained = load(place)
        return replace(trained, manifest=replace(trained.manifest, splits={}))

    monkeypatch.setattr(checkpoint, "load", imported)
    with pytest.raises(UserError, match=r"has no data of its own: give source=FILE"):
        work(tmp_path / "corpus")
    (tmp_path / "a.de").write_text("ein Satz\n")
    assert "1 pairs translated by" in work(tmp_path / "corpus", f"source={tmp_path / 'a.de'}")


def test_codes_of_languages_name_no_other_place(tmp_path, work, monkeypatch):
    load = checkpoint.load

    def elsewhere(place: Path):
        trained = load(place)
        return replace(trained, manifest=replace(trained.manifest, target_language="../en"))

    monkeypatch.setattr(checkpoint, "load", elsewhere)
    (tmp_path / "a.de").write_text("ein Satz\n")
    with pytest.raises(UserError, match=r"from 'de' to '../en': a corpus needs two languages"):
        work(tmp_path / "corpus", f"source={tmp_path / 'a.de'}")


@pytest.mark.slow
def test_two_processes_write_the_same_as_one(teacher, whole, tmp_path):
    folder, cache = tmp_path / "corpus", tmp_path / "cache"
    command = ["simulmt", "distil", f"checkpoint={teacher}", f"to={folder}", f"cache={cache}"]
    done = subprocess.run(
        [sys.executable, "-m", *command, "beam=2", "block=40", "processes=2"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert same(folder, whole)
    assert done.stdout.count("to train on it") == 1


@pytest.mark.slow
def test_the_printed_command_trains(tmp_path, work):
    said = work(tmp_path / "corpus").split()
    chosen = [word for word in said if word.startswith("data")]
    small = [o for o in SMALL if not o.startswith("data.")]
    train(
        configuration("train", *chosen, *small, f"cache={tmp_path / 'cache'}", "mechanism=wait_k"),
        str(tmp_path / "run"),
    )
    assert (tmp_path / "run" / "test_scores.json").is_file()


@pytest.mark.parametrize(
    ("seed", "processes"),
    [
        (0, 1),
        *(pytest.param(n, 1 + n % 2, marks=pytest.mark.slow) for n in range(1, 5)),
    ],
)
def test_killed_at_any_time_it_ends_the_same(seed, processes, teacher, whole, tmp_path):
    folder = tmp_path / "corpus"
    command = ["distil", f"checkpoint={teacher}", f"to={folder}", f"cache={tmp_path / 'cache'}"]
    command += ["beam=2", "block=40", f"processes={processes}"]
    killed(command, seed, lambda: any((folder / ".shards").glob("[0-9]*")))
    assert same(folder, whole)
    assert {path.name for path in folder.iterdir()} == {path.name for path in whole.iterdir()}
