"""Data sets of Hugging Face: folders of Parquet files, and the Hub as `datasets` gives it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulmt.data import huggingface, reader
from simulmt.data.corpus import Corpus
from simulmt.errors import UserError
from simulmt.parts.builders import build_corpus
from simulmt.programs.plain import plain
from small_runs import configuration

NEEDS = "needs pip install 'simulmt[huggingface]'"
datasets = pytest.importorskip("datasets", reason=NEEDS)
pa = pytest.importorskip("pyarrow", reason=NEEDS)
pq = pytest.importorskip("pyarrow.parquet", reason=NEEDS)

PAIRS = [(f"der Mann sieht {n} Hüte .", f"the man sees {n} hats .") for n in range(40)]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache for the library, and no network."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf")
    monkeypatch.setattr(datasets.config, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    yield
    datasets.enable_progress_bars()


def struct(pairs: list[tuple[str | None, str | None]]) -> Any:
    kind = pa.struct([("de", pa.string()), ("en", pa.string())])
    return pa.table({"translation": pa.array([{"de": a, "en": b} for a, b in pairs], kind)})


def columns(pairs: list[tuple[str, str]], names: tuple[str, str] = ("de", "en")) -> Any:
    return pa.table({name: [pair[side] for pair in pairs] for side, name in enumerate(names)})


def write(path: Path, table: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data set of 30 training pairs, in the names of files that `datasets` gives."""
    splits = {"train": PAIRS[:30], "validation": PAIRS[30:35], "test": PAIRS[35:]}
    for split, pairs in splits.items():
        write(tmp_path / "set" / "data" / f"{split}-00000-of-00001.parquet", struct(pairs))
    return tmp_path / "set"


def read(path: Path | str, *options: str, cache: Path | None = None) -> Corpus:
    said = [f"data.path={path}", "data.source=de", "data.target=en", *options]
    return build_corpus(
        plain(configuration("train", "data=huggingface", *said))["data"], cache=cache
    )


def pairs_of(corpus: Corpus, split: str = "train") -> list[tuple[str, str]]:
    return [*zip(corpus.splits[split].sources, corpus.splits[split].targets, strict=True)]


def test_the_splits_are_those_of_the_files(folder: Path, tmp_path: Path) -> None:
    for cache in (None, tmp_path / "cache", tmp_path / "cache"):
        corpus = read(folder, cache=cache)
        assert (corpus.source_language, corpus.target_language) == ("de", "en")
        assert pairs_of(corpus) == PAIRS[:30]
        assert pairs_of(corpus, "valid") == PAIRS[30:35]
        assert pairs_of(corpus, "test") == PAIRS[35:]


def test_every_layout_gives_the_same_text(folder: Path, tmp_path: Path) -> None:
    texts = columns(PAIRS[:30], ("german", "text"))
    nested = pa.table({"both": pa.array([{"a": a, "b": b} for a, b in PAIRS[:30]])})
    large = pa.table(
        {name: texts.column(name).cast(pa.large_string()) for name in texts.schema.names}
    )
    layouts = {
        "plain": (columns(PAIRS[:30]), []),
        "named": (texts, ["data.columns=[german,text]"]),
        "large": (large, ["data.columns=[german,text]"]),
        "nested": (nested, ["data.columns=[both.a,both.b]"]),
    }
    expected = read(folder).splits["train"].sha256
    for name, (table, options) in layouts.items():
        write(tmp_path / name / "train.parquet", table)
        assert read(tmp_path / name, *options).splits["train"].sha256 == expected


def test_shards_batches_and_patterns_are_one_text(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read(folder).splits["train"].sha256
    monkeypatch.setattr(huggingface, "BLOCK", 7)
    assert read(folder).splits["train"].sha256 == whole
    (folder / "data" / "train-00000-of-00001.parquet").unlink()
    for number, start in enumerate(range(0, 30, 10)):
        path = folder / "data" / f"train-{number:05}-of-00003.parquet"
        write(path, struct(PAIRS[start : start + 10]))
    assert read(folder).splits["train"].sha256 == whole
    assert read(folder, "data.train='data/train*.parquet'").splits["train"].sha256 == whole
    last = "data.train=data/train-00002-of-00003.parquet"
    assert pairs_of(read(folder, last)) == PAIRS[20:30]


def test_text_is_normalised_and_filtered_as_that_of_files(tmp_path: Path) -> None:
    rows = [(None, "x"), ("", "y"), ("a\u0308\tb \r\n", " c\nd"), ("one " * 9, "one"), ("e", "f")]
    table = struct(rows).append_column("more", pa.array(range(5)))
    kind = table.schema.field("translation").type
    none = pa.table({"translation": pa.array([None], kind)})
    path = tmp_path / "set" / "train.parquet"
    write(path, pa.concat_tables([table.select(["translation"]), none]))
    train = read(tmp_path / "set", "data.max_words=8").splits["train"]
    assert [*zip(train.sources, train.targets, strict=True)] == [("ä b", "c d"), ("e", "f")]
    assert train.dropped == {"empty": 3, "too_long": 1}


def test_a_second_start_reads_no_text(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pairs_of(read(folder, cache=tmp_path / "cache"))
    monkeypatch.setattr(huggingface, "_blocks", pytest.fail)
    monkeypatch.setattr(reader, "digest_of_file", pytest.fail)
    assert pairs_of(read(folder, cache=tmp_path / "cache")) == before


def test_a_folder_has_no_revisions(folder: Path) -> None:
    with pytest.raises(UserError, match=r"data\.revision=main is for the Hub"):
        read(folder, "data.revision=main").splits["train"]


def test_without_the_library_a_line_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"needs `datasets`: pip install 'simulmt\[huggingface\]'"):
        read(folder).splits["test"]


def test_other_columns_or_contents_are_another_entry(tmp_path: Path) -> None:
    table = columns(PAIRS).append_column("fr", pa.array([f"homme {n}" for n in range(40)]))
    write(tmp_path / "set" / "train.parquet", table)
    cache, others = tmp_path / "cache", ["data.columns=[de,fr]"]
    assert pairs_of(read(tmp_path / "set", cache=cache)) == PAIRS
    assert pairs_of(read(tmp_path / "set", *others, cache=cache))[0][1] == "homme 0"
    assert pairs_of(read(tmp_path / "set", "data.columns=[fr,de]", cache=cache))[0][0] == "homme 0"
    write(tmp_path / "set" / "train.parquet", table.slice(1))
    assert pairs_of(read(tmp_path / "set", cache=cache)) == PAIRS[1:]


def test_slices_of_one_file_are_entries_of_their_own(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert pairs_of(read(folder, "data.train='train[:5]'", cache=cache)) == PAIRS[:5]
    assert pairs_of(read(folder, "data.train='train[5:]'", cache=cache)) == PAIRS[5:30]
    assert pairs_of(read(folder, cache=cache)) == PAIRS[:30]


def test_the_card_says_which_files_belong_to_a_split(folder: Path) -> None:
    write(folder / "second.parquet", struct(PAIRS[:3]))
    files = [{"split": "train", "path": "second*"}, {"split": "test", "path": ["data/test*"]}]
    configs = [
        {"config_name": "small", "data_files": files},
        {"config_name": "all", "data_files": "data/*.parquet", "default": True},
    ]
    card = f"---\n{json.dumps({'configs': configs})}\n---\nA data set\n"
    (folder / "README.md").write_text(card)
    small = read(folder, "data.config=small")
    assert pairs_of(small) == PAIRS[:3]
    assert pairs_of(small, "test") == PAIRS[35:]
    assert len(read(folder).splits["train"]) == 40
    with pytest.raises(
        UserError, match=r"split validation of .*Unknown split.*\['train', 'test'\]"
    ):
        small.splits["valid"]
    with pytest.raises(UserError, match=r"'tiny' not found. Available: \['small', 'all'\]"):
        read(folder, "data.config=tiny").splits["train"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (columns(PAIRS, ("x", "en")), r"\['de'\] not in .*\['x', 'en'\]; correct .*data.columns"),
        (struct(PAIRS).rename_columns(["other"]), r"not in .*\['other.de', 'other.en'\]"),
        (pa.table({"de": [1], "en": ["a"]}), "not columns of text: {'de': 'int64'}"),
        (pa.table({"de": [""], "en": ["a"]}), "no pair is left of .*1 pairs with an empty side"),
        (pa.table({"de": ["a " * 3000], "en": ["a"]}), "line 1, has 5,999 characters"),
    ],
)
def test_what_is_wrong_with_a_split_is_one_line(tmp_path: Path, table: Any, message: str) -> None:
    write(tmp_path / "set" / "test.parquet", table)
    with pytest.raises(UserError, match=message):
        read(tmp_path / "set").splits["test"]


@pytest.mark.parametrize("content", [b"PAR1", b"no Parquet file", b"PAR1" + bytes(99) + b"PAR1"])
def test_a_corrupt_file_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "test.parquet").write_bytes(content)
    with pytest.raises(UserError, match=r"split test of .*set cannot be read: "):
        read(tmp_path / "set").splits["test"]


def test_a_file_whose_pages_are_corrupt_is_one_line(tmp_path: Path) -> None:
    write(tmp_path / "set" / "test.parquet", columns(PAIRS * 99))
    content = bytearray((tmp_path / "set" / "test.parquet").read_bytes())
    content[50:900] = bytes(850)
    (tmp_path / "set" / "test.parquet").write_bytes(content)
    with pytest.raises(UserError, match=r"split test of .*set cannot be read: "):
        read(tmp_path / "set").splits["test"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["data.path=no/such/folder"], "not a local folder.*data.path"),
        (["data.path=me/set"], "split train of me/set on the Hub .*Couldn't reach 'me/set'"),
        (["data.columns=[de]"], "data.columns"),
        (["data.max_words=0"], "data.max_words"),
    ],
)
def test_what_is_wrong_with_the_options_is_one_line(
    folder: Path, options: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        read(folder, *options).splits["train"]


def test_a_script_is_not_executed(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "set.py").write_text("raise SystemExit('executed')")
    with pytest.raises(UserError, match="scripts are no longer supported"):
        read(tmp_path / "set").splits["train"]


def test_the_hub_is_asked_for_what_the_options_say(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, asked = datasets.load_dataset, []

    def from_hub(path: str, name: str | None, *, revision: str | None, **options: Any) -> Any:
        asked.append((path, name, revision))
        return load(str(folder), **options)

    monkeypatch.setattr(datasets, "load_dataset", from_hub)
    corpus = read("me/set", "data.config=de-en", "data.revision=v2", "data.valid='**/val*.parquet'")
    assert pairs_of(corpus) == PAIRS[:30]
    assert pairs_of(corpus, "valid") == PAIRS[30:35]
    assert asked == [("me/set", "de-en", "v2"), ("me/set", None, "v2")]
