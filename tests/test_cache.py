import gzip
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from filelock import FileLock

from simulmt.data import pairs, reader, store, workers
from simulmt.data.corpus import Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.ragged import Ragged
from simulmt.data.reader import read_text
from simulmt.data.store import Entry, write_sides
from simulmt.data.subwords import Subwords
from simulmt.data.verbfinal import verbfinal
from simulmt.errors import UserError
from simulmt.system.disk import zstd
from simulmt.system.lock import alone

SPLIT = verbfinal(5, 300, 20, 20).splits["train"]


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


def test_cached_pairs_are_the_pairs_in_memory(root, tmp_path):
    cache, copy = tmp_path / "cache", tmp_path / "copy"
    held, cached = read(root, None), read(root, cache)
    assert held == cached == read(root, cache)
    assert held.sha256 == cached.sha256
    assert [*held.sample()] == [*cached.sample()]
    one, other = encode(held, None), encode(cached, cache)
    assert same(one, other)
    parts = one.batch([7, 0, 299])[:-1], other.batch([7, 0, 299])[:-1]
    assert all(map(torch.equal, *parts))
    texts = [*(cache / "text").glob("*/source")]
    shutil.copytree(root, copy)
    assert read(copy, cache) == held
    assert [*(cache / "text").glob("*/source")] == texts, "the same text is not written again"


def test_a_second_start_reads_no_text(root, tmp_path, monkeypatch):
    before = encode(read(root, tmp_path / "cache"), tmp_path / "cache")
    with monkeypatch.context() as patch:
        for place in ("pairs.raw_lines", "reader.digest_of_file", "subwords._trained"):
            patch.setattr(f"simulmt.data.{place}", pytest.fail)
        patch.setattr("builtins.open", pytest.fail)
        again = read(root, tmp_path / "cache")
        assert again.sha256 == SPLIT.sha256
    for path in (tmp_path / "cache" / "text").rglob("source"):
        path.write_bytes(b"x" * path.stat().st_size)  # would be noticed
    assert same(encode(again, tmp_path / "cache"), before)


def test_changed_text_is_noticed_even_if_size_and_time_are_the_same(root, tmp_path):
    read(root, tmp_path / "cache")
    path, before = root / "train.en", (root / "train.en").stat()
    path.write_bytes(path.read_bytes()[::-1].lstrip(b"\n") + b"\n")
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read(root, tmp_path / "cache") == read(root, None)


@pytest.mark.parametrize("damage", ["flipped", "cut", "absent"])
def test_corrupt_files_are_rebuilt(root, tmp_path, damage):
    cache = tmp_path / "cache"
    split = read(root, cache)
    expected = encode(split, cache)
    good = {path: path.read_bytes() for path in files(cache) if path.suffix != ".lock"}
    entries = {path: content for path, content in good.items() if "files" not in path.parts}
    for path, content in good.items():
        middle = len(content) // 2
        if damage == "absent":
            path.unlink()
        else:
            rest = bytes([content[middle] ^ 1]) + content[middle + 1 :]
            path.write_bytes(content[:middle] + (rest if damage == "flipped" else b""))
        again = read(root, cache)
        assert again == split, path
        assert same(encode(again, cache), expected), path
        assert {p: p.read_bytes() for p in entries} == entries, path


def test_what_a_killed_process_leaves_is_removed(tmp_path):
    def make(folder: Path) -> dict[str, int]:
        (folder / "half").write_bytes(b"half")
        os._exit(9)

    if (child := os.fork()) == 0:
        Entry(tmp_path / "entry", make).record  # noqa: B018
    os.waitpid(child, 0)
    assert [path.name for path in tmp_path.rglob("half")] == ["half"]
    assert Entry(tmp_path / "entry", lambda folder: {"a": 2}).record.facts == {"a": 2}
    assert [*tmp_path.rglob("half")] == []


def test_text_that_changes_while_it_is_read_is_an_error(root, tmp_path, monkeypatch):
    """Or the new text would lie in the cache under the digest of the old one."""

    def digest_and_change(path: Path) -> str:
        digest = store.digest_of_file(path)
        path.write_text("new\n" * len(SPLIT))
        return digest

    monkeypatch.setattr(reader, "digest_of_file", digest_and_change)
    with pytest.raises(UserError, match="changed"):
        read(root, tmp_path / "cache")


def test_a_file_system_without_locks_will_do(tmp_path, monkeypatch):
    monkeypatch.setattr(FileLock, "acquire", Mock(side_effect=OSError(38, "not implemented")))
    assert Entry(tmp_path / "entry", lambda folder: {"a": 1}).record.facts == {"a": 1}
    together, rename = threading.Barrier(2), Path.rename

    def make(folder: Path) -> dict[str, int]:
        (folder / "rows").write_bytes(b"whole")
        return {"a": 1}

    def rename_together(made: Path, place: Path) -> Path:
        together.wait(60)  # both have written
        return rename(made, place)

    monkeypatch.setattr(Path, "rename", rename_together)
    with ThreadPoolExecutor(2) as threads:
        entries = [Entry(tmp_path / "cache" / "entry", make) for _ in "ab"]
        for (path,) in threads.map(lambda entry: entry.files("rows"), entries):
            assert path.read_bytes() == b"whole"
    assert {path.name for path in files(tmp_path / "cache")} == {"rows", "about.json"}


def test_a_lock_of_another_user_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(FileLock, "acquire", Mock(side_effect=PermissionError(13, "denied")))
    with pytest.raises(UserError, match=r"the lock .*entry\.lock cannot be opened \(denied\)"):
        Entry(tmp_path / "entry", lambda folder: {"a": 1}).record  # noqa: B018


def test_a_folder_that_cannot_be_written_needs_no_lock(tmp_path, monkeypatch):
    """As that of the test sets which a colleague has downloaded."""
    monkeypatch.setattr(FileLock, "acquire", Mock(side_effect=PermissionError(13, "denied")))
    monkeypatch.setattr(os, "access", lambda *_: False)  # the tests may run as root
    with alone(tmp_path / "wmt15") as locked:
        assert not locked


def test_what_another_machine_is_writing_stays(tmp_path, monkeypatch):
    """Some file systems lock a file for the processes of one machine only."""

    def make(folder: Path) -> dict[str, int]:
        (folder / "rows").write_bytes(b"whole")
        with monkeypatch.context() as patch:
            patch.setattr(socket, "gethostname", lambda: "another")
            patch.setattr(store, "alone", lambda _: nullcontext(True))
            Entry(tmp_path / "entry", lambda folder: {"a": 1}).record  # noqa: B018
        assert (folder / "rows").exists()
        return {"a": 1}

    assert Entry(tmp_path / "entry", make).record.facts == {"a": 1}


def test_a_line_break_within_a_line_is_an_error():
    """It would shift all lines after it, perhaps by as many on the other side."""
    with pytest.raises(UserError, match="line 2 of a corpus"):
        encode(Split(["ein Hut", "der\nMann"], ["a\nhat", "the man"]), None)


@pytest.mark.parametrize(
    ("compress", "ending"), [(bytes, ""), (gzip.compress, ".gz"), (zstd.compress, ".zst")]
)
def test_shards_are_one_text(tmp_path, compress, ending):
    for number, rows in enumerate((slice(0, 100), slice(100, 101), slice(101, 300))):
        write(tmp_path, f"train.{number:02}", Split(SPLIT.sources[rows], SPLIT.targets[rows]))
    for path in tmp_path.glob("train*"):
        content = path.read_bytes()
        path.unlink()
        path.with_name(path.name + ending).write_bytes(compress(content))
    for train, cache in product(("train", "train.*", "tra*.0*"), (None, tmp_path / "cache")):
        split = read(tmp_path, cache, train)
        assert (split.sources, split.targets) == (SPLIT.sources, SPLIT.targets)
    write(tmp_path, "train", Split(["ein Hut"], ["a hat"]))
    assert read(tmp_path, None).sources == ["ein Hut"]


def test_what_is_wrong_with_a_shard_is_named(tmp_path):
    write(tmp_path, "train.0")
    (tmp_path / "train.0.en").unlink()
    with pytest.raises(UserError, match=r"train\.0\.en .*train\.0\.de"):
        read(tmp_path, None)
    (tmp_path / "train.de.zst").write_bytes(zstd.compress(b"a")[:-2])
    (tmp_path / "train.en").write_text("a")
    with pytest.raises(UserError, match=r"train\.de\.zst"):
        read(tmp_path, None)


def test_processes_give_the_same_in_order(monkeypatch):
    monkeypatch.setattr(workers, "cores", lambda: 2)
    blocks = [*range(100)]
    assert [*workers.in_order(abs, blocks, 1 << 30)] == [*map(abs, blocks)]
    with pytest.raises(ZeroDivisionError):
        [*workers.in_order((1).__truediv__, [1, 0, 1], 1 << 30)]
    with pytest.raises(UserError, match=r"was killed .*repeat the command"):
        [*workers.in_order(os._exit, [1], 1 << 30)]


def test_encoding_in_processes_is_the_same(root, tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "cores", lambda: 2)
    monkeypatch.setattr(workers, "_WORTH", 0)
    monkeypatch.setattr(pairs, "BLOCK", 70)
    split = read(root, tmp_path / "cache")
    assert (split.sources, split.targets) == (SPLIT.sources, SPLIT.targets)
    assert same(encode(split, tmp_path / "cache"), encode(SPLIT, None))


def test_rows_are_written_in_blocks(tmp_path):
    rows = [[1, 2], [], [3], [4, 5, 6], []]
    whole = Ragged.of(rows, np.int32)

    def make(folder: Path) -> dict[str, int]:
        parts = (whole.part(start, start + 2) for start in range(0, 5, 2))
        return {"pairs": write_sides(folder, ((part, part) for part in parts))}

    entry = Entry(tmp_path / "entry", make)
    assert entry.record.facts == {"pairs": 5}
    mapped = entry.rows("source", np.int32)
    assert [row.tolist() for row in mapped] == rows
    assert mapped.lengths.tolist() == [2, 0, 1, 3, 0]
    assert [row.tolist() for row in Ragged.joined([mapped.part(0, 1), mapped.part(1, 9)])] == rows
    matrix, mask = mapped.padded(np.array([3, 1, 0]), pad=9)
    assert matrix.tolist() == [[4, 5, 6], [9, 9, 9], [1, 2, 9]]
    assert mask.tolist() == [[True] * 3, [False] * 3, [True, True, False]]


def test_processes_that_start_together_do_the_work_once(tmp_path):
    made, start = [], threading.Barrier(2)

    def make(folder: Path) -> dict[str, int]:
        made.append(folder)
        return {"a": 1}

    def read_entry() -> None:
        start.wait()
        assert Entry(tmp_path / "entry", make).record.facts == {"a": 1}

    both = [threading.Thread(target=read_entry) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(timeout=60)
    assert len(made) == 1


def test_a_full_disk_leaves_nothing_and_is_one_line(tmp_path):
    def make(folder: Path) -> dict[str, int]:
        (folder / "half").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match=r"entry .*No space left.*cache"):
        Entry(tmp_path / "cache" / "entry", make).rows("a", np.int32)
    assert [path.name for path in files(tmp_path)] == [".entry.lock"]
