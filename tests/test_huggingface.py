"""Data sets of Hugging Face: Parquet files in a folder, and on a hub on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hub import Hub, serving
from simulmt.builders import build_corpus
from simulmt.data import parquet
from simulmt.data.corpus import Corpus
from simulmt.data.listing import Listing
from simulmt.data.parquet import ParquetShard
from simulmt.errors import UserError
from simulmt.programs.plain import plain
from small_runs import ROOT, configuration

NEEDS = "needs pip install 'simulmt[huggingface]'"
pa = pytest.importorskip("pyarrow", reason=NEEDS)
pq = pytest.importorskip("pyarrow.parquet", reason=NEEDS)

PAIRS = [(f"der Mann sieht {n} Hüte .", f"the man sees {n} hats .") for n in range(40)]
OF_FILE = {"train": "data/train-00000-of-00001", "validation": "data/validation", "test": "test/0"}


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
        write(tmp_path / "set" / f"{OF_FILE[split]}.parquet", struct(pairs))
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
    packed = pa.table(
        {n: texts.column(n).combine_chunks().dictionary_encode() for n in ("german",)}
    )
    packed = packed.append_column("text", texts.column("text").cast(pa.large_string()))
    layouts = {
        "plain": (columns(PAIRS[:30]), []),
        "named": (texts, ["data.columns=[german,text]"]),
        "packed": (packed, ["data.columns=[german,text]"]),
        "nested": (nested, ["data.columns=[both.a,both.b]"]),
    }
    expected = read(folder).splits["train"].sha256
    for name, (table, options) in layouts.items():
        write(tmp_path / name / "train.parquet", table)
        assert read(tmp_path / name, *options).splits["train"].sha256 == expected


def test_shards_and_batches_are_one_text(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(folder).splits["train"].sha256
    monkeypatch.setattr(parquet, "_BLOCK", 7)
    assert read(folder).splits["train"].sha256 == whole
    (folder / "data" / "train-00000-of-00001.parquet").unlink()
    for number, start in enumerate(range(0, 30, 10)):
        path = folder / "data" / f"train-{number:05}-of-00003-0f1e2d.parquet"
        write(path, struct(PAIRS[start : start + 10]))
    assert read(folder).splits["train"].sha256 == whole
    assert read(folder, "data.train='data/train*.parquet'").splits["train"].sha256 == whole


def test_text_is_normalised_and_filtered_as_that_of_files(tmp_path: Path) -> None:
    rows = [(None, "x"), ("", "y"), ("a\u0308\tb \r\n", " c\nd"), ("one " * 9, "one"), ("e", "f")]
    table = struct(rows).append_column("more", pa.array(range(5)))
    kind = table.schema.field("translation").type
    none = pa.table({"translation": pa.array([None], kind)})
    write(tmp_path / "train.parquet", pa.concat_tables([table.select(["translation"]), none]))
    train = read(tmp_path, "data.max_words=8").splits["train"]
    assert [*zip(train.sources, train.targets, strict=True)] == [("ä b", "c d"), ("e", "f")]
    assert train.dropped == {"empty": 3, "too_long": 1}


def test_a_second_start_reads_no_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pairs_of(read(folder, cache=tmp_path / "cache"))
    monkeypatch.setattr(ParquetShard, "blocks", pytest.fail)
    monkeypatch.setattr(parquet, "digest_of_file", pytest.fail)
    assert pairs_of(read(folder, cache=tmp_path / "cache")) == before


def test_without_pyarrow_only_a_filled_cache_will_do(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pairs_of(read(folder, cache=tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert pairs_of(read(folder, cache=tmp_path / "cache")) == before
    with pytest.raises(UserError, match=r"need pyarrow, which is not .*'simulmt\[huggingface\]'"):
        read(folder).splits["test"]


def test_other_columns_or_contents_are_another_entry(tmp_path: Path) -> None:
    table = columns(PAIRS).append_column("fr", pa.array([f"homme {n}" for n in range(40)]))
    write(tmp_path / "set" / "train.parquet", table)
    cache, others = tmp_path / "cache", ["data.columns=[de,fr]"]
    assert pairs_of(read(tmp_path / "set", cache=cache)) == PAIRS
    assert pairs_of(read(tmp_path / "set", *others, cache=cache))[0][1] == "homme 0"
    write(tmp_path / "set" / "train.parquet", table.slice(1))
    assert pairs_of(read(tmp_path / "set", cache=cache)) == PAIRS[1:]


def test_the_card_says_which_files_belong_to_a_split(folder: Path, tmp_path: Path) -> None:
    write(folder / "second.parquet", struct(PAIRS[:3]))
    files = [{"split": "train", "path": "second*"}, {"split": "test", "path": ["test/**"]}]
    configs = [
        {"config_name": "small", "data_files": files},
        {"config_name": "all", "data_files": "data/*.parquet", "default": True},
    ]
    card = f"---\n{json.dumps({'configs': configs})}\n---\nA data set\n"
    (folder / "README.md").write_text(card)
    small = read(folder, "data.config=small")
    assert pairs_of(small) == PAIRS[:3]
    assert pairs_of(small, "test") == PAIRS[35:]
    assert len(read(folder).splits["train"]) == 35
    with pytest.raises(UserError, match=r"no split validation; its splits: test, train"):
        small.splits["valid"]
    with pytest.raises(UserError, match=r"no configuration tiny; .*data.config: all, small"):
        read(folder, "data.config=tiny").splits["train"]
    (folder / "README.md").write_text("---\n[\n---\n")
    with pytest.raises(UserError, match=r"header of .*README.md is no YAML"):
        read(folder).splits["train"]


@pytest.mark.parametrize(
    ("split", "config", "files"),
    [
        ("train", "de-en", ["de-en/train-00000-of-00002", "de-en/train-00001-of-00002"]),
        ("train", "fr-en", ["fr-en/train/0000"]),
        ("test_2016", None, ["test_2016"]),
        ("fr-en/**.parquet", None, ["fr-en/partial-train/0000", "fr-en/train/0000"]),
        ("*.parquet", None, ["test_2016", "test_2017"]),
        ("train", None, "several configurations; .*: de-en, fr-en"),
        ("train", "es-en", "no configuration es-en; .*: de-en, fr-en"),
        ("test", "de-en", "no split test; its splits: train"),
        ("test", None, "no split test; its splits: partial-train, test_2016, test_2017, train"),
    ],
)
def test_a_split_is_in_the_name_of_a_file_or_of_its_folder(
    split: str, config: str | None, files: list[str] | str
) -> None:
    stems = ["de-en/train-00000-of-00002", "de-en/train-00001-of-00002"]
    stems += ["fr-en/partial-train/0000", "fr-en/train/0000", "test_2016", "test_2017"]
    listing = Listing("set", [f"{stem}.parquet" for stem in stems], [], "Remedy")
    if isinstance(files, str):
        with pytest.raises(UserError, match=files):
            listing.files(split, config)
    else:
        assert listing.files(split, config) == [f"{stem}.parquet" for stem in files]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (columns(PAIRS, ("x", "en")), "has no column de, but x, en: correct `source`"),
        (struct(PAIRS).rename_columns(["other"]), "has no column de, but other.de, other.en"),
        (pa.table({"de": [1], "en": ["a"]}), "column de holds int64, not text"),
        (pa.table({"de": [""], "en": ["a"]}), "no pair is left of .*1 pairs with an empty side"),
        (columns(PAIRS).slice(0, 0), "no pair is left of .*: 0 lines"),
        (pa.table({"de": ["a " * 3000], "en": ["a"]}), "row 1, has 5,999 characters"),
        (
            pa.table({"de": pa.array([b"\xff"]).view(pa.string()), "en": ["a"]}),
            "has text that is not UTF-8",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(tmp_path: Path, table: Any, message: str) -> None:
    write(tmp_path / "test.parquet", table)
    with pytest.raises(UserError, match=message):
        read(tmp_path).splits["test"]


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"no Parquet file", b"PAR1" + bytes(99) + b"PAR1"]
)
def test_a_damaged_file_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "test.parquet").write_bytes(content)
    with pytest.raises(UserError, match=r"test.parquet is damaged, or no Parquet file .*again"):
        read(tmp_path).splits["test"]


def test_a_file_whose_pages_are_damaged_is_one_line(tmp_path: Path) -> None:
    write(tmp_path / "test.parquet", columns(PAIRS * 99))
    content = bytearray((tmp_path / "test.parquet").read_bytes())
    content[50:900] = bytes(850)
    (tmp_path / "test.parquet").write_bytes(content)
    with pytest.raises(UserError, match=r"test.parquet is damaged"):
        read(tmp_path).splits["test"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["data.path=no/such/folder"], "data.path=no/such/folder: there is no such folder"),
        (["data.path=./no"], "data.path=./no: there is no such folder"),
        (["data.revision=main"], "data.revision=main with the folder .*leave it out"),
        (["data.columns=[de]"], r"data.columns is \['de'\]; it must be of type tuple"),
        (["data.max_words=0"], "data.max_words is 0; it must be at least 1"),
    ],
)
def test_what_is_wrong_with_the_options_is_said_at_once(
    folder: Path, options: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        read(folder, *options)


def test_a_file_is_no_folder_and_other_formats_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is a file: .*data.train=0.parquet"):
        read(folder / "test" / "0.parquet")
    (tmp_path / "none").mkdir()
    with pytest.raises(UserError, match=r"no Parquet files\. Other formats .* `datasets`"):
        read(tmp_path / "none").splits["train"]


def test_hidden_folders_do_not_count(folder: Path) -> None:
    write(folder / ".cache" / "train.parquet", struct(PAIRS))
    assert pairs_of(read(folder)) == PAIRS[:30]


SCRIPT = """
import json, sys
from pathlib import Path
from simulmt.builders import build_corpus
from simulmt.errors import UserError
options = json.loads(sys.argv[1])
cache = options.pop("cache")
try:
    train = build_corpus(options, cache=cache and Path(cache)).splits["train"]
    print(len(train), train.sha256[0], "huggingface_hub" in sys.modules, "pyarrow" in sys.modules)
except UserError as error:
    print("error:", error)
"""


def on_hub(hub: Hub, cache: Path | None, *options: str, **environment: str) -> str:
    """What a process says that reads `me/set`: huggingface_hub takes its options at its import."""
    said = ["data.path=me/set", "data.source=de", "data.target=en", *options]
    data = configuration("train", "data=huggingface", *said).data
    where = {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_TELEMETRY": "1", **environment}
    given = json.dumps({**data, "subwords": {}, "cache": str(cache or "")})
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, given],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **where},
        check=False, timeout=120, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("huggingface_hub", reason=NEEDS)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with serving() as hub:
        yield hub


def test_a_data_set_on_the_hub_is_fetched_once(hub: Hub, folder: Path, tmp_path: Path) -> None:
    commit = hub.add("me/set", "main", folder)
    cache, sha256 = tmp_path / "cache", read(folder).splits["train"].sha256[0]
    assert on_hub(hub, cache) == f"30 {sha256} True True"
    assert any(f"resolve/{commit}/data/train" in path for path in hub.asked)
    assert not any("validation" in path for path in hub.asked), "only what is read"
    hub.asked.clear()
    write(tmp_path / "later" / "train.parquet", struct(PAIRS[:2]))
    hub.add("me/set", "main", tmp_path / "later")
    assert on_hub(hub, cache) == f"30 {sha256} False False", "the commit of the first start"
    assert hub.asked == [], "so a network is not needed"
    assert on_hub(hub, tmp_path / "new").startswith("2 ")
    assert on_hub(hub, tmp_path / "new", f"data.revision={commit}").startswith("30 ")


def test_a_copy_of_a_data_set_on_the_hub_is_the_same_entry(
    hub: Hub, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("me/set", "main", folder)
    on_hub(hub, tmp_path / "cache")
    monkeypatch.setattr(ParquetShard, "blocks", pytest.fail)
    assert pairs_of(read(folder, cache=tmp_path / "cache")) == PAIRS[:30]


def test_the_hubs_own_conversion_stands_in_for_other_formats(
    hub: Hub, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "train.jsonl").touch()
    card = {"configs": [{"config_name": "default", "data_files": "train.jsonl"}]}
    hub.add("me/set", "main", tmp_path / "json", card)
    for part in ("default/train", "default/partial-test"):
        write(tmp_path / "made" / part / "0000.parquet", struct(PAIRS[:9]))
    hub.add("me/set", "refs/convert/parquet", tmp_path / "made")
    assert on_hub(hub, tmp_path / "cache").startswith("9 ")
    answer = on_hub(hub, tmp_path / "cache", "data.train=test")
    assert "has no split test; its splits: partial-test, train" in answer


@pytest.mark.parametrize("files", [3, [{"split": "train"}], [["a"]], {"train": {"x": 1}}, None])
def test_a_card_without_sense_is_one_line(tmp_path: Path, files: object) -> None:
    folder = tmp_path / "set"
    write(folder / "train.parquet", struct(PAIRS[:9]))
    card = f"---\n{json.dumps({'configs': [1, {'data_files': files}]})}\n---\n"
    (folder / "README.md").write_text(card)
    with pytest.raises(UserError):
        read(folder).splits["train"]


@pytest.mark.parametrize(
    ("options", "environment", "message"),
    [
        (["data.path=me/nothing"], {}, "no folder here, and the hub has no such data set"),
        (["data.revision=v2"], {}, "me/set on the hub has no revision v2"),
        pytest.param(["data.config=x"], {}, "has no configuration x", marks=pytest.mark.slow),
        ([], {"HF_HUB_OFFLINE": "1"}, "cannot be asked for it (HF_HUB_OFFLINE is set): type `hf"),
        ([], {"HF_ENDPOINT": "http://127.0.0.1:9"}, "cannot be asked for it ([Errno 111]"),
    ],
)
def test_what_the_hub_does_not_give_is_one_line(
    hub: Hub, folder: Path, options: list[str], environment: dict[str, str], message: str
) -> None:
    hub.add("me/set", "main", folder)
    assert message in on_hub(hub, None, *options, **environment)
