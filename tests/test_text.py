from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from simulmt.data import reader
from simulmt.data.corpus import Corpus, Split
from simulmt.data.pairs import FilePair
from simulmt.data.reader import read_pairs, read_text
from simulmt.data.text import LONGEST_LINE, normalise, word_count
from simulmt.data.verbfinal import verbfinal
from simulmt.errors import UserError


def write(root: Path, stem: str, source: bytes, target: bytes, gz: bool = False) -> None:
    for language, content in (("de", source), ("en", target)):
        path = root / f"{stem}.{language}{'.gz' if gz else ''}"
        path.write_bytes(gzip.compress(content) if gz else content)


def read(root: Path, max_words: int = 50, **stems: str) -> Corpus:
    names = {"train": "train", "valid": "val", "test": "test", **stems}
    corpus = read_text(str(root), "de", "en", max_words=max_words, name="toy", **names)
    assert len([*corpus.splits.values()]) == 3  # reads all splits
    return corpus


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for stem in ("train", "val", "test"):
        write(tmp_path, stem, b"ein Hut\nzwei\n", b"a hat\ntwo\n")
    return tmp_path


def test_a_split_is_read_once_at_its_first_access(root: Path) -> None:
    corpus = read_text(str(root), "de", "en", "missing", "val", "test", 50, "toy")
    assert "train" in corpus.splits
    test = corpus.splits["test"]
    (root / "test.de").unlink()
    assert corpus.splits["test"] is test
    with pytest.raises(UserError, match=r"missing\.de is missing"):
        corpus.splits["train"]


def test_gz_and_plain_alike_and_no_final_newline(root: Path) -> None:
    plain = read(root)
    for path in list(root.iterdir()):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes().rstrip()))
        path.unlink()
    assert read(root) == plain


def test_only_newline_ends_a_line(root: Path) -> None:
    odd = "a\u2028b\x85c\x0cd\x1ce\rf \u00a0 g\t\r\n\x0b h \u2581i \r\n"
    write(root, "train", odd.encode(), b"x\ny\n")
    assert read(root).splits["train"].sources == ["a b c d e f g", "h i"]


def test_the_lines_of_a_corpus_are_normalised(root: Path) -> None:
    odd = "a\u2028b\x85c\u2581d \u00a0 u\u0308\t\r\n\ufeff \u212b\n".encode()
    write(root, "train", odd, odd)
    write(root, "val", odd, odd)
    for corpus in (read(root), verbfinal(1, 500, 50, 50)):
        for split in corpus.splits.values():
            text = [*split.sample()]
            assert [*map(normalise, text)] == text
            assert [*map(word_count, text)] == [len(line.split()) for line in text]


def test_drops_empty_everywhere_and_long_in_train_only(root: Path) -> None:
    write(root, "test", b"a b c\n\na b\na\n", b"x\nx\nx y z\n \t\n")
    write(root, "train", b"a b c\n\na b\na\n", b"x y\nx\nx y\n \t\n")
    corpus = read(root, max_words=2)
    assert corpus.splits["test"].sources == ["a b c", "a b"]
    assert corpus.splits["test"].dropped == {"empty": 2, "too_long": 0}
    train = corpus.splits["train"]
    assert (train.sources, train.targets) == (["a b"], ["x y"])
    assert train.dropped == {"empty": 2, "too_long": 1}


def test_a_line_too_long_to_translate_is_named(root: Path) -> None:
    long = b"a " * (LONGEST_LINE // 2)
    write(root, "train", b"ein Hut\n" + long + b"a\n", b"a hat\nb\n")
    write(root, "val", long + b"\n", b"b\n")
    read(root, max_words=LONGEST_LINE)
    write(root, "val", b"\na\n", b"b\n" + long + b"aa\n")
    said = r"val\.en, line 2, has 4,098 characters; the limit is 4,096: split it"
    with pytest.raises(UserError, match=said):
        read(root)


@pytest.mark.parametrize(
    ("stem", "source", "target", "said"),
    [
        ("train", b"a\nb\xc3\xbc\xfcr\n", b"a\nb\n", r"train\.de, line 2, byte offset 3 .*0xfc"),
        ("val", b"a\nb\nc\n", b"a\nb\n", r"val\.en ends after line 2, but .*val\.de"),
        ("val", b"a\n", b"a\nb\n\n", r"val\.de ends after line 1, but .*val\.en"),
        ("train", b"a b c\n\n", b"a\nb\n", r"1 pairs with an.*1 too long \(max_words=2"),
        ("test", b"", b"", r"test\.de: 0 pairs"),
    ],
)
def test_text_that_is_no_corpus_is_named(root, stem, source, target, said) -> None:
    write(root, stem, source, target)
    with pytest.raises(UserError, match=said):
        read(root, max_words=2)


def test_missing_files_are_named_with_those_there_are(root: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere is not a folder.*train\.de"):
        read(root / "nowhere")
    (root / "dev.de").write_bytes(b"only German\n")
    with pytest.raises(UserError, match=r"trian\.de is missing .*: dev\.de, test\.de, test\.en, "):
        read(root, train="trian")
    with pytest.raises(UserError, match=r"train\.fr is missing .*: dev\.de, test\.de, "):
        read_text(str(root), "de", "fr", "train", "val", "test", 50, "toy").splits["train"]


def test_a_file_that_cannot_be_read_is_named_with_a_cache_too(root: Path, tmp_path, monkeypatch):
    def denied(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(reader, "digest_of_file", denied)
    with pytest.raises(UserError, match=r"val\.de cannot be read \(Permission denied\): check"):
        read_pairs([FilePair(root / "val.de", root / "val.en")], cache=tmp_path / "cache")


@pytest.mark.parametrize("damage", ["truncated", "garbled", "plain"])
def test_damaged_gz(root: Path, damage: str) -> None:
    content = gzip.compress("".join(f"line {n * n}\n" for n in range(500)).encode())
    half = len(content) // 2
    bad = {
        "truncated": content[:half],
        "garbled": content[:half] + b"\xff" * 40 + content[half + 40 :],
        "plain": b"no archive\n",
    }[damage]
    (root / "more.de.gz").write_bytes(bad)
    (root / "more.en.gz").write_bytes(content)
    with pytest.raises(UserError, match=r"more\.de\.gz is corrupt.*fetch it again"):
        read(root, train="more")


def test_large_corpora_are_sampled_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulmt.data.corpus.SAMPLE", 3)
    assert [*Split([*"abcd"], [*"efgh"]).sample()] == ["a", "c", "f"]
    assert [*Split(["a"], ["b"]).sample()] == ["a", "b"]
    assert [*Split([], []).sample()] == []
