from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from simulmt.data.corpus import Corpus, Split
from simulmt.data.lines import Lines
from simulmt.data.reader import read_text
from simulmt.data.text import LONGEST_LINE, normalise, word_count
from simulmt.data.verbfinal import verbfinal
from simulmt.errors import UserError
from simulmt.options import construct

SHARED = Path(__file__).parents[2] / "shared" / "data"
needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the real corpora")


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


def test_reads_the_three_splits(root: Path) -> None:
    corpus = read(root)
    assert (corpus.name, corpus.source_language, corpus.target_language) == ("toy", "de", "en")
    assert list(corpus.splits) == ["train", "valid", "test"]
    for split in corpus.splits.values():
        assert split.sources == ["ein Hut", "zwei"]
        assert split.targets == ["a hat", "two"]
        assert split.dropped == {"empty": 0, "too_long": 0}


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


def test_a_plain_file_is_preferred_to_gz(root: Path) -> None:
    write(root, "train", b"old\n", b"old\n", gz=True)
    assert read(root).splits["train"].sources == ["ein Hut", "zwei"]


def test_only_newline_ends_a_line(root: Path) -> None:
    odd = "a\u2028b\x85c\x0cd\x1ce\rf \u00a0 g\t\r\n\x0b h \u2581i \r\n"
    write(root, "train", odd.encode(), b"x\ny\n")
    assert read(root).splits["train"].sources == ["a b c d e f g", "h i"]


def test_byte_order_mark_and_composition(root: Path) -> None:
    text = "\ufeffu\u0308ber\nu\u0308\n".encode()
    write(root, "train", text, text)
    assert read(root).splits["train"].sources == ["\u00fcber", "\u00fc"]


def test_the_lines_of_a_corpus_are_normalised(root: Path) -> None:
    odd = "a\u2028b\x85c\u2581d \u00a0 u\u0308\t\r\n\ufeff \u212b\n".encode()
    write(root, "train", odd, odd)
    write(root, "val", odd, odd)
    for corpus in (read(root), verbfinal(1, 500, 50, 50)):
        for split in corpus.splits.values():
            text = [*split.sample()]
            assert [*map(normalise, text)] == text
            assert [*map(word_count, text)] == [len(line.split()) for line in text]


def test_normalise_is_idempotent() -> None:
    text = " \u2000a\u0301\u2581\u3000b\u2028 \u212b\n"
    assert normalise(text) == "\u00e1 b \u00c5" == normalise(normalise(text))


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


def test_missing_root(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere is not a folder.*set `root`.*train\.de"):
        read(tmp_path / "nowhere")


def test_missing_file_names_paths_and_stems(root: Path) -> None:
    (root / "dev.de").write_bytes(b"only German\n")
    with pytest.raises(UserError) as error:
        read(root, train="trian")
    message = str(error.value)
    assert f"{root / 'trian.de'} is missing (plain, .gz or .zst)" in message
    assert "there: dev.de, test.de, test.en, train.de" in message
    assert "Correct the stem" in message


def test_missing_language_lists_the_files(root: Path) -> None:
    with pytest.raises(UserError, match=r"train\.fr is missing .*; files there: test\.de, "):
        read_text(str(root), "de", "fr", "train", "val", "test", 50, "toy").splits["train"]


def test_different_line_counts(root: Path) -> None:
    write(root, "val", b"a\nb\nc\n", b"a\nb\n")
    with pytest.raises(UserError, match=r"val\.en ends after line 2, but .*val\.de .*same release"):
        read(root)
    write(root, "val", b"a\n", b"a\nb\n\n")
    with pytest.raises(UserError, match=r"val\.de ends after line 1, but .*val\.en"):
        read(root)


@pytest.mark.parametrize("gz", [False, True])
def test_invalid_utf8_names_line_and_byte(tmp_path: Path, gz: bool) -> None:
    for stem in ("train", "val", "test"):
        write(tmp_path, stem, b"a\nb\xc3\xbc\xfcr\n", b"a\nb\n", gz)
    message = r"train\.de(\.gz)?, line 2, byte offset 3 in that line \(0xfc\).*iconv"
    with pytest.raises(UserError, match=message):
        read(tmp_path)


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


def test_nothing_left(root: Path) -> None:
    write(root, "train", b"a b c\n\n", b"a\nb\n")
    with pytest.raises(UserError, match=r"1 pairs with an.*1 too long \(max_words=2: rai"):
        read(root, max_words=2)
    write(root, "test", b"", b"")
    with pytest.raises(UserError, match=r"no pair is left of .*test\.de: 0 pairs.*right files"):
        read(root)


def test_max_words_must_be_positive(root: Path) -> None:
    stems = {"train": "train", "valid": "val", "test": "test"}
    options = {"root": str(root), "source": "de", "target": "en", **stems, "name": "toy"}
    with pytest.raises(UserError, match=r"data\.max_words is 0; it must be at least 1"):
        construct(read_text, {**options, "max_words": 0}, "data")


def test_unreadable_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(UserError, match=r"train\.de cannot be read \(Permission denied\)"):
        read(root)


@needs_data
def test_real_layouts() -> None:
    multi = read_text(
        str(SHARED / "multi30k"), "de", "en", "train", "val", "test_2016_flickr", 100, "multi30k"
    )
    assert {name: len(split) for name, split in multi.splits.items()} == {
        "train": 29000,
        "valid": 1014,
        "test": 1000,
    }
    wmt = read_text(
        str(SHARED / "wmt15_deen_sample"),
        "de",
        "en",
        "train",
        "newstest2014_head",
        "newstest2015_head",
        80,
        "wmt",
    )
    train = wmt.splits["train"]
    assert len(train) + sum(train.dropped.values()) == 20000
    assert train.dropped["too_long"] > 0
    assert max(len(line.split()) for line in train.sample()) == 80
    folder = str(SHARED / "iwslt15_envi_devtest")
    iwslt = read_text(folder, "en", "vi", "tst2012", "tst2012", "tst2013", 200, "iwslt")
    assert [len(split) for split in iwslt.splits.values()] == [1553, 1553, 1268]
    with pytest.raises(UserError, match=re.escape("there: tst2012.en")):
        read_text(folder, "en", "vi", "train", "tst2012", "tst2013", 200, "iwslt").splits["train"]


def test_lines_are_a_list_of_strings():
    text = ["ein Hut", "", "zwei Hüte", "三顶帽子", "🎩"]
    lines = Lines.of(text)
    assert lines == text
    assert text == lines
    assert lines != text[:-1]
    assert lines != [*text[:-1], "ein Hut"]
    assert [len(lines), lines[0], lines[-1], lines.index("zwei Hüte")] == [5, "ein Hut", "🎩", 2]
    assert lines[1:4] == text[1:4]
    assert lines[::-1] == text[::-1]
    assert "zwei" not in lines
    with pytest.raises(IndexError):
        lines[5]


def test_large_corpora_are_sampled_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulmt.data.corpus.SAMPLE", 3)
    assert [*Split([*"abcd"], [*"efgh"]).sample()] == ["a", "c", "f"]
    assert [*Split(["a"], ["b"]).sample()] == ["a", "b"]
    assert [*Split([], []).sample()] == []
