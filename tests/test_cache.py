from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from simulmt.data import pairs, reader, store, subwords, workers
from simulmt.data.corpus import Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.pairs import FilePair
from simulmt.data.ragged import Ragged
from simulmt.data.reader import read_text
from simulmt.data.store import Entry, write_sides
from simulmt.data.subwords import Subwords
from simulmt.data.text import zstd
from simulmt.data.verbfinal import verbfinal
from simulmt.errors import UserError

SPLIT = verbfinal(5, 300, 20, 20).splits["train"]
SLOW = """
import sys, time
from pathlib import Path
from simulmt.data.store import Entry
def make(folder):
    time.sleep(3)
    with open(sys.argv[2], "a") as log:
        log.write("made\\n")
    return {"a": 1}
assert Entry(Path(sys.argv[1]), make).record.facts == {"a": 1}
"""
KILLED = """
import sys, time
from pathlib import Path
from simulmt.data.store import Entry
def make(folder):
    (folder / "half").write_bytes(b"half")
    print("making", flush=True)
    time.sleep(60)
Entry(Path(sys.argv[1]), make).record
"""


def write(root: Path, stem: str = "train", split: Split = SPLIT) -> None:
    root.mkdir(exist_ok=True)
    for language, lines in (("de", split.sources), ("en", split.targets)):
        (root / f"{stem}.{language}").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def read(root: Path, cache: Path | None, train: str = "train") -> Split:
    corpus = read_text(str(root), "de", "en", train, "valid", "test", 50, "toy", cache)
    return corpus.splits["train"]


def encode(split: Split, cache: Path | None) -> EncodedSplit:
    model = Subwords.train(
        SPLIT.sample(), 200, "bpe", cache=cache and cache / "subwords", digest="SPLIT"
    )
    return EncodedSplit.encode(split, model, cache)


def same(one: EncodedSplit, other: EncodedSplit) -> bool:
    sides = (one.sources, other.sources), (one.targets, other.targets)
    return all(
        np.array_equal(a.values, b.values) and np.array_equal(a.ends, b.ends) for a, b in sides
    )


def files(cache: Path) -> Iterator[Path]:
    return (path for path in sorted(cache.rglob("*")) if path.is_file())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "text")
    return tmp_path / "text"


def test_cached_pairs_are_the_pairs_in_memory(root: Path, tmp_path: Path) -> None:
    held, cached = read(root, None), read(root, tmp_path / "cache")
    assert held == cached == read(root, tmp_path / "cache")
    assert held.sha256 == cached.sha256
    assert [*held.sample()] == [*cached.sample()]
    assert same(encode(held, None), encode(cached, tmp_path / "cache"))
    rows = [7, 0, 299]
    for part, other in zip(
        encode(held, None).batch(rows), encode(cached, tmp_path / "cache").batch(rows), strict=True
    ):
        assert part.equal(other)


def test_a_second_start_reads_no_text(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = encode(read(root, tmp_path / "cache"), tmp_path / "cache")
    for module, name in (
        (pairs, "raw_lines"),
        (reader, "digest_of_file"),
        (subwords, "_trained"),
    ):
        monkeypatch.setattr(module, name, pytest.fail)
    monkeypatch.setattr("builtins.open", pytest.fail)
    again = read(root, tmp_path / "cache")
    assert again.sha256 == SPLIT.sha256
    monkeypatch.undo()
    for path in (tmp_path / "cache" / "text").rglob("source"):
        path.write_bytes(b"x" * path.stat().st_size)  # would be noticed
    assert same(encode(again, tmp_path / "cache"), before)


def test_the_same_text_elsewhere_is_not_written_again(root: Path, tmp_path: Path) -> None:
    first = read(root, tmp_path / "cache")
    texts = [*(tmp_path / "cache" / "text").glob("*/source")]
    os.utime(root / "train.de", (1, 1))
    (copy := tmp_path / "copy").mkdir()
    for path in root.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    assert read(root, tmp_path / "cache") == read(copy, tmp_path / "cache") == first
    assert [*(tmp_path / "cache" / "text").glob("*/source")] == texts


def test_changed_text_is_noticed_even_if_size_and_time_are_the_same(
    root: Path, tmp_path: Path
) -> None:
    read(root, tmp_path / "cache")
    path, before = root / "train.en", (root / "train.en").stat()
    path.write_bytes(path.read_bytes()[::-1].lstrip(b"\n") + b"\n")
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read(root, tmp_path / "cache") == read(root, None)


@pytest.mark.parametrize("damage", ["flipped", "cut", "absent", "longer"])
def test_corrupt_files_are_rebuilt(root: Path, tmp_path: Path, damage: str) -> None:
    cache = tmp_path / "cache"
    split = read(root, cache)
    expected = encode(split, cache)
    good = {path: path.read_bytes() for path in files(cache) if path.suffix != ".lock"}
    for path, content in good.items():
        middle = len(content) // 2
        if damage == "absent":
            path.unlink()
        else:
            bad = {
                "flipped": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
                "cut": content[:middle],
                "longer": content + b"0",
            }[damage]
            path.write_bytes(bad)
        again = read(root, cache)
        assert again == split, path
        assert same(encode(again, cache), expected), path
        assert {p: p.read_bytes() for p in good if "files" not in p.parts} == {
            p: content for p, content in good.items() if "files" not in p.parts
        }, path


def test_processes_that_start_together_do_the_work_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", SLOW, str(tmp_path / "entry"), str(log)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(process.communicate(timeout=60)[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert log.read_text() == "made\n"
    assert said[0] == ""
    assert re.fullmatch(rf"waiting: .* is working on {tmp_path / 'entry'}\n", said[1])


def test_what_a_killed_process_leaves_is_removed(tmp_path: Path) -> None:
    place = tmp_path / "entry"
    command = [sys.executable, "-c", KILLED, str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "making\n"
        process.send_signal(signal.SIGKILL)
    assert [path.name for path in tmp_path.rglob("half")] == ["half"]
    assert Entry(place, lambda folder: {"a": 2}).record.facts == {"a": 2}
    assert [*tmp_path.rglob("half")] == []


def test_a_full_disk_leaves_nothing_and_is_one_line(tmp_path: Path) -> None:
    def make(folder: Path) -> dict[str, int]:
        (folder / "half").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match=r"entry cannot be written \(No space left.*set `cache`"):
        Entry(tmp_path / "cache" / "entry", make).rows("a", np.int32)
    assert [path.name for path in files(tmp_path)] == [".entry.lock"]


def test_text_that_changes_while_it_is_read_is_refused(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(files: pairs.FilePair) -> Iterator[pairs.PairBlock]:
        yield from pairs.raw_blocks(files)
        files.source.write_text("new\n" * len(SPLIT))

    monkeypatch.setattr(reader, "raw_blocks", change)
    with pytest.raises(UserError, match="changed while it was read"):
        read(root, tmp_path / "cache")


def test_text_that_changes_before_it_is_read_is_refused(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the new text would lie in the cache under the digest of the old one."""

    def digest_and_change(path: Path) -> str:
        digest = store.digest_of_file(path)
        path.write_text("new\n" * len(SPLIT))
        return digest

    monkeypatch.setattr(reader, "digest_of_file", digest_and_change)
    with pytest.raises(UserError, match="changed while it was read"):
        read(root, tmp_path / "cache")


def test_a_file_system_without_locks_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(FileLock, "acquire", refuse)
    assert Entry(tmp_path / "entry", lambda folder: {"a": 1}).record.facts == {"a": 1}


def test_a_corrupt_entry_that_cannot_be_replaced_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(folder: Path) -> dict[str, int]:
        rows = Ragged.of([[1, 2]], np.int32)
        return {"pairs": write_sides(folder, [(rows, rows)])}

    entry = Entry(tmp_path / "entry", make)
    assert len(entry.rows("source", np.int32)) == 1
    (tmp_path / "entry" / "source").write_bytes(bytes(8))
    monkeypatch.setattr(store.shutil, "rmtree", lambda *_, **__: None)
    with pytest.raises(UserError, match=r"entry cannot be written \(File exists\)"):
        entry.rows("source", np.int32)


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no\.de cannot be read .*check path"):
        reader.read_pairs([FilePair(tmp_path / "no.de", tmp_path / "no.en")])


def test_a_stem_may_name_a_folder(root: Path, tmp_path: Path) -> None:
    assert read(tmp_path, None, "text/train") == read(root, None)
    with pytest.raises(UserError, match=r"no/train\.de is missing"):
        read(tmp_path, None, "no/train")


def test_a_corpus_with_line_breaks_within_a_line_is_refused() -> None:
    """They would shift all lines after them, perhaps by as many on the other side."""
    with pytest.raises(UserError, match=r"line 2 of a corpus has a line break: pass the lines"):
        encode(Split(["ein Hut", "der\nMann"], ["a\nhat", "the man"]), None)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstd.compress])
def test_shards_are_one_text(tmp_path: Path, compress: object) -> None:
    assert callable(compress)
    ending = {gzip.compress: ".gz", zstd.compress: ".zst"}.get(compress, "")
    for number, rows in enumerate((slice(0, 100), slice(100, 101), slice(101, 300))):
        write(tmp_path, f"train.{number:02}", Split(SPLIT.sources[rows], SPLIT.targets[rows]))
    for path in tmp_path.glob("train*"):
        path.with_name(path.name + ending).write_bytes(compress(path.read_bytes()))
        if ending:
            path.unlink()
    for train in ("train", "train.*", "tra*.0*"):
        for cache in (None, tmp_path / "cache"):
            split = read(tmp_path, cache, train)
            assert (split.sources, split.targets) == (SPLIT.sources, SPLIT.targets)
    write(tmp_path, "train", Split(["ein Hut"], ["a hat"]))
    assert read(tmp_path, None).sources == ["ein Hut"]


def test_a_shard_without_a_partner_is_named(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, f"train.{number}")
    (tmp_path / "train.1.en").unlink()
    with pytest.raises(UserError, match=r"train\.1\.en is missing .*; files there: train\.0\.de"):
        read(tmp_path, None)


def test_a_damaged_zst_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    content = zstd.compress((tmp_path / "train.de").read_bytes())
    (tmp_path / "train.de").unlink()
    for bad in (content[:-20], b"plain text\n"):
        (tmp_path / "train.de.zst").write_bytes(bad)
        with pytest.raises(UserError, match=r"train\.de\.zst is corrupt, or not compressed"):
            read(tmp_path, None)


def test_processes_give_the_same_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "cores", lambda: 2)
    blocks = [*range(100)]
    assert [*workers.in_order(abs, blocks, 1 << 30)] == [*map(abs, blocks)]
    with pytest.raises(ZeroDivisionError):
        [*workers.in_order((1).__truediv__, [1, 0, 1], 1 << 30)]
    with pytest.raises(UserError, match=r"was killed .*repeat the command"):
        [*workers.in_order(os._exit, [1], 1 << 30)]


def test_encoding_in_processes_is_the_same(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "cores", lambda: 2)
    monkeypatch.setattr(workers, "_WORTH", 0)
    monkeypatch.setattr(pairs, "BLOCK", 70)
    split = read(root, tmp_path / "cache")
    assert (split.sources, split.targets) == (SPLIT.sources, SPLIT.targets)
    assert same(encode(split, tmp_path / "cache"), encode(SPLIT, None))


def test_rows_are_written_in_blocks(tmp_path: Path) -> None:
    rows = [[1, 2], [], [3], [4, 5, 6], []]
    whole = Ragged.of(rows, np.int32)

    def make(folder: Path) -> dict[str, int]:
        parts = (whole.part(start, start + 2) for start in range(0, 5, 2))
        pairs = write_sides(folder, ((part, part) for part in parts))
        return {"pairs": pairs}

    entry = Entry(tmp_path / "entry", make)
    assert entry.record.facts == {"pairs": 5}
    mapped = entry.rows("source", np.int32)
    assert [row.tolist() for row in mapped] == rows
    assert mapped.lengths.tolist() == [2, 0, 1, 3, 0]
    assert [row.tolist() for row in Ragged.joined([mapped.part(0, 1), mapped.part(1, 9)])] == rows
    matrix, mask = mapped.padded(np.array([3, 1, 0]), pad=9)
    assert matrix.tolist() == [[4, 5, 6], [9, 9, 9], [1, 2, 9]]
    assert mask.tolist() == [[True] * 3, [False] * 3, [True, True, False]]
    record = json.loads((tmp_path / "entry" / store._RECORD).read_text())
    assert record["sha256"]["source"] == store.digest_of_file(tmp_path / "entry" / "source")
