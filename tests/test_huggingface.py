"""Data sets of Hugging Face: folders of Parquet files, and the Hub as `datasets` gives it."""

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


def test_the_splits_are_those_of_the_files(folder, tmp_path):
    for cache in (None, tmp_path / "cache", tmp_path / "cache"):
        corpus = read(folder, cache=cache)
        assert (corpus.source_language, corpus.target_language) == ("de", "en")
        assert pairs_of(corpus) == PAIRS[:30]
        assert pairs_of(corpus, "valid") == PAIRS[30:35]
        assert pairs_of(corpus, "test") == PAIRS[35:]


@pytest.mark.parametrize("layout", ["plain", "named", "large", "nested"])
def test_every_layout_gives_the_same_text(folder, tmp_path, layout):
    names = ("german", "text")
    table, options = columns(PAIRS[:30]), []
    if layout in ("named", "large"):
        table, options = columns(PAIRS[:30], names), ["data.columns=[german,text]"]
    if layout == "large":
        table = pa.table({name: table.column(name).cast(pa.large_string()) for name in names})
    if layout == "nested":
        rows = [{"a": a, "b": b} for a, b in PAIRS[:30]]
        table, options = pa.table({"both": pa.array(rows)}), ["data.columns=[both.a,both.b]"]
    write(tmp_path / "other" / "train.parquet", table)
    expected = read(folder).splits["train"].sha256
    assert read(tmp_path / "other", *options).splits["train"].sha256 == expected


def test_shards_batches_and_patterns_are_one_text(folder, monkeypatch):
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


def test_text_is_normalised_and_filtered_as_that_of_files(tmp_path):
    rows = [(None, "x"), ("", "y"), ("a\u0308\tb \r\n", " c\nd"), ("one " * 9, "one"), ("e", "f")]
    table = struct(rows).append_column("more", pa.array(range(5)))
    kind = table.schema.field("translation").type
    none = pa.table({"translation": pa.array([None], kind)})
    path = tmp_path / "set" / "train.parquet"
    write(path, pa.concat_tables([table.select(["translation"]), none]))
    train = read(tmp_path / "set", "data.max_words=8").splits["train"]
    assert [*zip(train.sources, train.targets, strict=True)] == [("ä b", "c d"), ("e", "f")]
    assert train.dropped == {"empty": 3, "too_long": 1}


def test_a_second_start_reads_no_text(folder, tmp_path, monkeypatch):
    before = pairs_of(read(folder, cache=tmp_path / "cache"))
    monkeypatch.setattr(huggingface, "_blocks", pytest.fail)
    monkeypatch.setattr(reader, "digest_of_file", pytest.fail)
    assert pairs_of(read(folder, cache=tmp_path / "cache")) == before


def test_other_columns_slices_or_contents_are_another_entry(tmp_path):
    table = columns(PAIRS).append_column("fr", pa.array([f"homme {n}" for n in range(40)]))
    path, cache = tmp_path / "set" / "train.parquet", tmp_path / "cache"
    write(path, table)
    french = [(source, f"homme {n}") for n, (source, _) in enumerate(PAIRS)]
    for option, expected in (
        ("data.columns=null", PAIRS),
        ("data.columns=[de,fr]", french),
        ("data.train='train[:5]'", PAIRS[:5]),
        ("data.train='train[5:]'", PAIRS[5:]),
    ):
        assert pairs_of(read(path.parent, option, cache=cache)) == expected
    write(path, table.slice(1))
    assert pairs_of(read(path.parent, cache=cache)) == PAIRS[1:]


@pytest.mark.parametrize(
    ("table", "named"),
    [
        (columns(PAIRS, ("x", "en")), r"\['de'\] .*\['x', 'en'\].*data.columns"),
        (struct(PAIRS).rename_columns(["other"]), r"\['other.de', 'other.en'\]"),
        (pa.table({"de": [1], "en": ["a"]}), "'de': 'int64'"),
        (pa.table({"de": [""], "en": ["a"]}), "1 pairs"),
        (b"PAR1" + bytes(99) + b"PAR1", "split test of"),
    ],
)
def test_what_is_wrong_with_a_split_is_one_line(tmp_path, table, named):
    path = tmp_path / "set" / "test.parquet"
    write(path, columns(PAIRS) if isinstance(table, bytes) else table)
    if isinstance(table, bytes):
        path.write_bytes(table)
    with pytest.raises(UserError, match=named):
        read(tmp_path / "set").splits["test"]


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("data.path=no/such/folder", "data.path"),
        ("data.path=me/set", "split train of me/set"),
        ("data.columns=[de]", "data.columns"),
        ("data.revision=main", "data.revision=main"),
    ],
)
def test_what_is_wrong_with_the_options_is_one_line(folder, option, named):
    with pytest.raises(UserError, match=named):
        read(folder, option).splits["train"]


def test_the_hub_is_asked_for_what_the_options_say(folder, monkeypatch):
    load, asked = datasets.load_dataset, []

    def from_hub(path: str, name: str | None, *, revision: str | None, **options: Any) -> Any:
        asked.append((path, name, revision))
        return load(str(folder), **options)

    monkeypatch.setattr(datasets, "load_dataset", from_hub)
    corpus = read("me/set", "data.config=de-en", "data.revision=v2", "data.valid='**/val*.parquet'")
    assert (pairs_of(corpus), pairs_of(corpus, "valid")) == (PAIRS[:30], PAIRS[30:35])
    assert asked == [("me/set", "de-en", "v2"), ("me/set", None, "v2")]


def test_a_set_that_has_moved_into_a_folder_has_no_revision(folder):
    said = ["data=huggingface", "data.path=me/set", "data.revision=v2"]
    options = plain(configuration("train", *said, "data.source=de", "data.target=en"))["data"]
    assert pairs_of(build_corpus(options, folder)) == PAIRS[:30]


def test_the_card_of_a_set_on_the_hub_is_checked_before_the_set_is_read(tmp_path, monkeypatch):
    def download(path: str, name: str, repo_type: str, revision: str | None) -> str:
        assert (path, repo_type, revision) == ("some/set", "dataset", "v2")
        if name != "README.md":
            raise FileNotFoundError(name)
        return str(card)

    card = tmp_path / "card.md"
    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    monkeypatch.setattr(datasets, "load_dataset", pytest.fail)
    for pattern in ("*a" * 32 + "b", "data/" + "**/" * 3 + "x", "a/*b*c*d*.parquet"):
        files = f"{{config_name: default, data_files: [{{split: train, path: '{pattern}'}}]}}"
        card.write_text(f"---\nconfigs: [{files}]\n---\n")
        with pytest.raises(UserError, match=r"the pattern .* in card.md has more than one `\*\*`"):
            read("some/set", "data.revision=v2").splits["train"]


def test_a_script_is_not_executed(tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "set.py").write_text("raise SystemExit('executed')")
    with pytest.raises(UserError, match="set"):
        read(tmp_path / "set").splits["train"]
