"""`simulmt distil`: what it writes, and that it comes to the same in any number of goes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from simulmt.data.encoded import EncodedSplit
from simulmt.data.reader import read_text
from simulmt.decoding.search import Search
from simulmt.errors import UserError
from simulmt.live.lines import LineTranslator
from simulmt.programs import line_job
from simulmt.programs.distil import RECORD, distil
from simulmt.programs.train import train
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained
from simulmt.scoring.split_decoder import SplitDecoder
from small_runs import SMALL, configuration, killed

pytestmark = pytest.mark.usefixtures("no_pictures")
SIDES = ("train.de", "train.en")
PAIRS = 120


@pytest.fixture(scope="module")
def teacher(trained_once) -> Path:
    return trained_once("mechanism=soft", "decoding.beam=2", "data.train=120", "data.test=24")


@pytest.fixture(scope="module")
def usual(teacher, tmp_path_factory) -> list[str]:
    cache = tmp_path_factory.mktemp("cache")
    return [f"checkpoint={teacher}", f"cache={cache}", "beam=2", "processes=1", "block=16"]


@pytest.fixture
def work(usual, capsys):
    """Returns a function that distils into a folder and returns what was printed."""

    def run(folder: Path, *overrides: str) -> str:
        distil(configuration("distil", f"to={folder}", *usual, *overrides))  # the last one counts
        return capsys.readouterr().out

    return run


@pytest.fixture(scope="module")
def whole(usual, tmp_path_factory) -> Path:
    """The corpus of one go, which nobody may change."""
    folder = tmp_path_factory.mktemp("whole") / "corpus"
    distil(configuration("distil", f"to={folder}", *usual))
    return folder


def lines(folder: Path, name: str) -> list[str]:
    return (folder / name).read_text(encoding="utf-8").split("\n")[:-1]


def same(one: Path, other: Path) -> bool:
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in SIDES)


def test_it_writes_what_the_test_set_would_be_decoded_to(teacher, whole, tmp_path, work):
    trained = checkpoint.load(teacher)
    split = trained.own_split("train", None)
    encoded = EncodedSplit.of(
        (ids[:-1] for ids in EncodedSplit.encode(split, trained.subwords).sources),
        ([] for _ in split.sources),
        trained.subwords.vocabulary,
    )
    decoder = SplitDecoder(split, trained.subwords, 600, Search(2, 0.6), encoded=encoded)
    model = trained.build()
    predictions = [instance.prediction for instance in decoder(model)]
    assert lines(whole, "train.en") == predictions
    assert lines(whole, "train.de") == [*split.sources]
    assert len({*predictions}) > 1
    work(tmp_path / "blocks", "block=1000", "batch_tokens=600", "references=true")
    assert lines(tmp_path / "blocks", "train.de") == [*split.sources] * 2
    assert lines(tmp_path / "blocks", "train.en") == [*predictions, *split.targets]


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
    source = tmp_path / "a.de"
    source.write_text("".join(f"{line}\n" for line in lines(whole, "train.de")[:30]))
    for name, k in (("all", 1000), ("early", 1)):
        work(tmp_path / name, f"source={source}", "kind=monotonic", f"k={k}")
    assert lines(tmp_path / "all", "train.en") == lines(whole, "train.en")[:30]
    early = lines(tmp_path / "early", "train.en")
    assert early != lines(whole, "train.en")[:30]
    assert len(early) == 30


def test_interrupted_work_goes_on_and_ends_the_same(whole, tmp_path, work, monkeypatch):
    folder, translate, blocks = tmp_path / "corpus", LineTranslator.__call__, []

    def interrupted(self: LineTranslator, lines: list[str]) -> list[str]:
        blocks.append(len(lines))
        if len(blocks) in (3, 5):
            raise KeyboardInterrupt
        return translate(self, lines)

    monkeypatch.setattr(LineTranslator, "__call__", interrupted)
    unfinished = folder / ".unfinished"
    for there in (2, 3):
        with pytest.raises(KeyboardInterrupt):
            work(folder)
        assert len([*unfinished.glob("block-*")]) == there
    assert not (folder / "train.en").exists()
    third = unfinished / "block-0000002.json"
    third.write_bytes(third.read_bytes()[:-7])  # as a full disk may leave
    assert "2 of 8 blocks" in work(folder)
    assert blocks == [16] * 10 + [8], "the third one was translated again"
    assert same(folder, whole)
    before = (folder / RECORD).stat().st_mtime_ns
    work(folder)
    assert (folder / RECORD).stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "killed", ["train.en", *(pytest.param(f, marks=pytest.mark.slow) for f in ("valid.de", RECORD))]
)
def test_a_kill_while_blocks_are_joined_loses_nothing(killed, whole, tmp_path, work, monkeypatch):
    folder, replacing, write_json = tmp_path / "corpus", line_job.replacing, line_job.write_json

    def stop(path: Path, *content: object):
        if path.name == f"text.{killed}":
            path.with_name(f"{path.name}.0.tmp").touch()  # as a kill leaves
            raise KeyboardInterrupt
        return (write_json if content else replacing)(path, *content)

    with monkeypatch.context() as patch:
        patch.setattr(line_job, "replacing", stop)
        patch.setattr(line_job, "write_json", stop)
        with pytest.raises(KeyboardInterrupt):
            work(folder)
    work(folder)
    assert same(folder, whole)
    assert {path.name for path in folder.iterdir()} == {path.name for path in whole.iterdir()}


def test_files_of_the_user_stay(whole, tmp_path, work, monkeypatch):
    folder = tmp_path / "corpus"
    mine = {"train.en": "mine", "notes.tmp": "mine, too", ".unfinished/0.txt": "mine as well"}

    def files() -> dict[str, str]:
        return {name: (folder / name).read_text() for name in mine if (folder / name).exists()}

    (folder / ".unfinished").mkdir(parents=True)
    (folder / ".unfinished" / "0.txt").write_text("mine as well")
    with pytest.raises(UserError, match=r"\.unfinished was not written by simulmt"):
        work(folder)
    (folder / ".unfinished" / "0.txt").unlink()
    monkeypatch.setattr(line_job.LineJob, "publish", lambda *_: 1)
    work(folder)
    monkeypatch.undo()
    for name, text in mine.items():
        (folder / name).write_text(text)
    with pytest.raises(UserError, match=r"train.en exists, and this command did not write it"):
        work(folder)
    assert files() == mine
    (folder / "train.en").unlink()
    work(folder)
    assert same(folder, whole)
    assert files() == mine | {"train.en": (whole / "train.en").read_text()}


@pytest.mark.parametrize(
    ("overrides", "changed"),
    [
        ("beam=3", "beam=2, not beam=3"),
        ("length_penalty=0.25", "length_penalty=0.6, not length_penalty=0.25"),
        ("batch_tokens=99", "batch_tokens=.*, not batch_tokens=99"),
        ("block=3", "block=16, not block=3"),
        ("kind=monotonic", "kind=sequence, k=None, not kind=monotonic, k=7"),
        ("references=true", "references=None, not references=[0-9a-f]{64}:"),
        ("source=other", "pairs=120, source=.*, not pairs=1, source="),
    ],
)
def test_another_command_is_rejected(overrides, changed, whole, tmp_path, work, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("other").write_text("der Mann schläft .\n", encoding="utf-8")
    with pytest.raises(UserError, match=changed):
        work(whole, overrides)


def test_another_teacher_is_rejected(whole, work, monkeypatch):
    monkeypatch.setattr(Trained, "digest", "another")
    with pytest.raises(UserError, match=r"written with teacher=[0-9a-f]{64}, not teacher=another"):
        work(whole)


def test_a_folder_of_something_else_is_rejected(tmp_path, work):
    (tmp_path / "corpus" / "mine").mkdir(parents=True)
    with pytest.raises(UserError, match="corpus was not written by simulmt"):
        work(tmp_path / "corpus")


def test_the_last_of_several_processes_joins_their_shards(whole, tmp_path, work, monkeypatch):
    folder = tmp_path / "corpus"
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "3")
    for rank in (2, 0):
        monkeypatch.setenv("RANK", str(rank))
        said = work(folder)
    assert "3 of 8 blocks are not translated yet" in said
    assert not (folder / RECORD).exists()
    monkeypatch.setenv("WORLD_SIZE", "1")  # another number of processes is as good
    work(folder)
    assert same(folder, whole)


def test_files_are_translated_instead(whole, tmp_path, work):
    text = [lines(whole, name)[:20] for name in SIDES]
    for name, side in zip(("a.de", "a.en"), text, strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in ["", "x " * 99, *side]))
    files = [f"source={tmp_path / 'a.de'}", f"target={tmp_path / 'a.en'}", "references=true"]
    sizes = [max(len(a.split()), len(b.split())) for a, b in zip(*text, strict=True)]
    most = sorted(sizes)[9]
    kept = [pair for pair, size in zip(zip(*text, strict=True), sizes, strict=True) if size <= most]
    said = work(tmp_path / "corpus", *files, f"max_words={most}")
    assert lines(tmp_path / "corpus", "train.de") == [a for a, _ in kept] * 2
    assert lines(tmp_path / "corpus", "train.en")[len(kept) :] == [b for _, b in kept]
    assert f"1 empty, {21 - len(kept)} too long" in said
    assert not (tmp_path / "corpus" / "valid.de").exists()


@pytest.fixture
def load(monkeypatch):
    """Loads the teacher with a change."""
    load = checkpoint.load

    def changed(**changes) -> None:
        def other(place: Path, option: str):
            trained = load(place, option)
            setup = replace(trained.setup, batch_tokens=changes.get("batch_tokens", 300))
            manifest = {k: v for k, v in changes.items() if k != "batch_tokens"}
            return replace(trained, setup=setup, manifest=replace(trained.manifest, **manifest))

        monkeypatch.setattr(checkpoint, "load", other)

    return changed


def test_what_is_too_long_for_the_teacher_has_no_translation(tmp_path, work, load):
    load(batch_tokens=14)
    said = work(tmp_path / "corpus", "batch_tokens=600")
    empty = sum(not line for line in lines(tmp_path / "corpus", "train.en"))
    assert 0 < empty < PAIRS
    assert f"{empty} translations are empty" in said


def test_a_sentence_of_exactly_the_limit_is_translated(teacher):
    trained, line = checkpoint.load(teacher), "der Mann schläft ."
    size = len(trained.subwords.encode_source(line)) + 1  # with EOS
    model = trained.build()
    for longest, kept in ((size - 1, False), (size, True)):
        translate = LineTranslator(model, trained.subwords, Search(1, 0), 600, longest)
        assert bool(translate([line])[0]) is kept


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ("k=3", "k=3 with kind=sequence"),
        ("kind=monotonic k=0", "k is 0"),
        ("source=no.de references=true", "references=True with source=no.de"),
        ("source=no.de data_root=x", "data_root=x is for the model's own data"),
        ("target=no.en", "target=no.en"),
        ("source=/dev/zero", "source is /dev/zero, a device or a named pipe"),
    ],
)
def test_bad_choices_end_in_one_line_and_leave_nothing(overrides, named, tmp_path, work):
    with pytest.raises(UserError, match=named):
        work(tmp_path / "corpus", *overrides.split())
    assert not (tmp_path / "corpus").exists()


def test_what_streams_is_no_teacher(trained_once, tmp_path, work):
    student = trained_once("mechanism=mma_il", "lambda=0.2")
    with pytest.raises(UserError, match="mechanism=mma_il"):
        work(tmp_path / "corpus", f"checkpoint={student}")


def test_an_imported_teacher_needs_a_text(tmp_path, work, load):
    load(splits={})
    with pytest.raises(UserError, match=r"without its data.* give source=FILE"):
        work(tmp_path / "corpus")
    (tmp_path / "a.de").write_text("ein Satz\n")
    work(tmp_path / "corpus", f"source={tmp_path / 'a.de'}")
    assert lines(tmp_path / "corpus", "train.de") == ["ein Satz"]
    load(target_language="../en")  # would name another place
    with pytest.raises(UserError, match=r"\.\./en"):
        work(tmp_path / "other", f"source={tmp_path / 'a.de'}")


def test_a_source_without_references_counts_as_on_its_own_side(tmp_path, work, monkeypatch):
    """A teacher that writes characters reads words: seven words are not too long."""
    load = checkpoint.load

    def writes_characters(place: Path, option: str):
        trained = load(place, option)
        writing = replace(trained.subwords.writing, target=True)
        return replace(trained, subwords=trained.subwords.written(writing))

    monkeypatch.setattr(checkpoint, "load", writes_characters)
    line = "der Mann kauft heute das neue Haus"
    (tmp_path / "a.de").write_text(f"{line}\n")
    work(tmp_path / "corpus", f"source={tmp_path / 'a.de'}", "max_words=7")
    assert lines(tmp_path / "corpus", "train.de") == [line]


@pytest.mark.slow
def test_the_printed_command_trains(tmp_path, work):
    chosen = [word for word in work(tmp_path / "corpus").split() if word.startswith("data")]
    chosen += [o for o in SMALL if not o.startswith("data.")]
    chosen += [f"cache={tmp_path / 'cache'}", "mechanism=wait_k"]
    train(configuration("train", *chosen), str(tmp_path / "run"))
    assert (tmp_path / "run" / "test_scores.json").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_time_it_ends_the_same(seed, usual, whole, tmp_path):
    folder = tmp_path / "corpus"
    command = ["distil", f"to={folder}", *usual[:-2], f"processes={1 + seed % 2}", usual[-1]]
    killed(command, seed, lambda: any((folder / ".unfinished").glob("block-*")))
    assert same(folder, whole)
    assert {path.name for path in folder.iterdir()} == {path.name for path in whole.iterdir()}
