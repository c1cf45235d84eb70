"""Hostile text and a corrupt cache: records, combining marks, and the cards of data sets."""

from __future__ import annotations

import random
import shutil
import signal
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from faults.damages import damages
from faults.world import Case, World
from simulmt.data import text
from simulmt.data.encoded import EncodedSplit
from simulmt.data.reader import read_text
from simulmt.data.subwords import Subwords
from simulmt.data.text import normalise
from simulmt.data.verbfinal import verbfinal
from simulmt.errors import UserError
from simulmt.parts.builders import build_corpus
from simulmt.programs.plain import plain
from small_runs import configuration

SECONDS = 60
"""After which a data set hangs; reading it takes less than one."""
MARKS = [sign for sign in map(chr, range(0x1F000)) if unicodedata.combining(sign)]
COMPOSED = [sign for sign in map(chr, range(0xAC40)) if unicodedata.decomposition(sign)]
COMPOSED += [*map(chr, range(0xAC00, 0xAC40)), *map(chr, range(0x1100, 0x1200))]
ORDINARY = [*"aeiouns  \t\u00a0\u2581\u4e00\u09c7\u09be"]


def records(world: World, few: bool) -> list[Case]:
    """Each damage of each file of a cache, and digits of its records."""
    home, _ = cached(world)
    files = [path for path in sorted(home.rglob("*")) if path.is_file() and path.suffix != ".lock"]
    ways = dict(damages(world.canary))
    ways |= {f"digit {n}": digit for n in range(30)} | {"another's": another}
    found = []
    for path, (what, damage) in product(files, ways.items()):
        if path.suffix == ".json" or not what.startswith(("digit", "another's")):
            name = str(path.relative_to(home))
            title = f"{name}, {what}"
            found.append(Case(title, partial(use, world, name, damage, title)))
    return found


@cache
def cached(world: World) -> tuple[Path, list[Any]]:
    """A cache of text, subwords and ids, and what is read with it."""
    (root := world.folder / "of records").mkdir()
    split = verbfinal(3, 60, 5, 5).splits["train"]
    for language, lines in (("de", split.sources), ("en", split.targets)):
        (root / f"train.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root / "cache", content(root, root / "cache")


def content(root: Path, place: Path) -> list[Any]:
    """All that training takes from a corpus and a cache."""
    corpus = read_text(str(root), "de", "en", "train", "train", "train", 50, "toy", place)
    split = corpus.splits["train"]
    given = {"cache": place / "subwords", "digest": " ".join(split.sha256)}
    subwords = Subwords.train(split.sample(), 150, "bpe", **given)
    encoded = EncodedSplit.encode(split, subwords, place)
    sides = [[row.tolist() for row in side] for side in (encoded.sources, encoded.targets)]
    return [len(split), [*split.sources], split.sha256, split.dropped, subwords.files, sides]


def digit(path: Path, rng: random.Random) -> None:
    """Change one digit, of a number or of a digest."""
    old = path.read_text()
    place = rng.choice([n for n, sign in enumerate(old) if sign in "0123456789abcdef"])
    path.write_text(old[:place] + rng.choice("0123456789") + old[place + 1 :])


def another(path: Path, rng: random.Random) -> None:
    """Put the record of another entry in its place."""
    records = sorted({*path.parents[2].rglob(path.name)} - {path})
    shutil.copy(rng.choice(records), path)


def use(world: World, name: str, damage: Callable, title: str) -> str:
    """Read with a corrupt copy of the cache, twice: nothing may change."""
    home, expected = cached(world)
    copy = world.folder / "corrupt"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(home, copy)
    damage(copy / name, random.Random(title))
    try:
        differ = [time for time in ("first", "second") if content(home.parent, copy) != expected]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    executed = ["the canary is there"] * world.canary.exists()
    return ", ".join([*(f"the {time} reading differs" for time in differ), *executed])


def marks(world: World, few: bool) -> list[Case]:
    """Lines of letters, marks and spaces; long ones are mostly marks."""
    return [Case(f"line {seed}", partial(normal, seed)) for seed in range(400)]


def line(seed: int) -> str:
    """A line of up to 2,000 characters, or, one in eight, of up to 60,000 marks."""
    rng = random.Random(seed)
    signs = [rng.choice(rng.choice([MARKS, MARKS, COMPOSED, ORDINARY])) for _ in range(2000)]
    if seed % 8:
        return "".join(signs[: rng.randrange(2000)])
    return "a" + "".join(rng.choice(signs) for _ in range(4)) * rng.randrange(1, 15_000)


def normal(seed: int) -> str:
    """NFC by the letter; what `unicodedata` normalises is short, or its marks are in order."""
    given, seen = line(seed), list[str]()

    def watched(form: str, signs: str) -> str:
        seen.append(signs)
        return unicodedata.normalize(form, signs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "unicodedata", Watched(watched))
        found = normalise(given)
    said = []
    if any(len(signs) > 1000 and moves(signs) for signs in seen):
        said.append("quadratic")
    if len(given) < 2000 or not moves(given):
        folded = unicodedata.normalize("NFC", given).replace("\u2581", " ").split()
        said += ["not NFC"] * (found != " ".join(folded))
    return ", ".join(said + ["not idempotent"] * (normalise(found) != found))


class Watched:
    """The module `unicodedata` with another `normalize`."""

    combining = staticmethod(unicodedata.combining)

    def __init__(self, normalize: Callable[[str, str], str]) -> None:
        self.normalize = normalize


def decomposed(signs: str) -> str:
    """Each character as its letter and its marks."""
    return "".join(unicodedata.normalize("NFD", sign) for sign in signs)


def moves(signs: str) -> bool:
    """True if sorting the marks by insertion moves one of them."""
    classes = [unicodedata.combining(sign) for sign in decomposed(signs)]
    return any(a > b > 0 for a, b in pairwise(classes))


def cards(world: World, few: bool) -> list[Case]:
    """Cards with many stars, brackets, aliases or bytes."""
    pytest.importorskip("datasets", reason="needs pip install 'simulmt[huggingface]'")
    kinds = [stars, escaped, nested, laughing, merging, noisy, large]
    return [
        Case(f"{kind.__name__} {seed}", partial(read_card, world, kind, seed))
        for seed, kind in product(range(50), kinds)
    ]


def configured(pattern: str, quote: str = "'") -> bytes:
    """A card with a pattern of files."""
    data_files = f"  data_files:\n  - split: train\n    path: {quote}{pattern}{quote}\n"
    return f"---\nconfigs:\n- config_name: default\n{data_files}---\n# A card\n".encode()


def pattern(rng: random.Random) -> str:
    """Up to 40 stars, between letters that the files' names have and have not."""
    parts = [rng.choice(["*", "*", "**/", "*/", "?"]) + rng.choice(["a", "", "aa", "-"])
             for _ in range(rng.randrange(1, 40))]  # fmt: skip
    return "".join(parts) + rng.choice(["b", "x.parquet", ".parquet", ""])


def stars(rng: random.Random) -> bytes:
    """A pattern."""
    return configured(pattern(rng))


def escaped(rng: random.Random) -> bytes:
    """A pattern whose stars are escapes of YAML."""
    return configured(pattern(rng).replace("*", "\\x2a"), '"')


def nested(rng: random.Random) -> bytes:
    """Up to 20,000 levels."""
    opening, closing = rng.choice([("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", "")])
    depth = rng.randrange(1, 20_000)
    body = opening * depth + closing * rng.choice([depth, 0])
    return f"---\n{rng.choice(['configs', 'a', '[b]'])}:\n  {body}\n---\n".encode()


def laughing(rng: random.Random) -> bytes:
    """Lists of aliases of lists of aliases."""
    rows = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)]
    name = rng.choice(["configs", "dataset_info", "a12"])
    return f"---\na0: &a0 [x]\n{''.join(rows)}{name}: *a{rng.randrange(12)}\n---\n".encode()


def merging(rng: random.Random) -> bytes:
    """Mappings that are merged from mappings."""
    many = ", ".join(["{<<: {configs: [{data_files: '" + pattern(rng) + "'}]}}"] * 3)
    rows = [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 10)]
    body = f"<<: [{many}]\n" if rng.random() < 0.5 else f"a0: &a0 {{b: c}}\n{''.join(rows)}"
    return f"---\n{body}---\n".encode()


def noisy(rng: random.Random) -> bytes:
    """A card of which bytes are others, and the end is cut off."""
    card = bytearray(configured("data/*-*.parquet"))
    for _ in range(rng.randrange(1, 12)):
        card[rng.randrange(4, len(card))] = rng.randrange(256)
    return bytes(card[: rng.randrange(4, len(card) + 1)])


def large(rng: random.Random) -> bytes:
    """A card of some MiB."""
    filling = rng.choice(["x ", "- x\n", "\n", "k: v\n", "[", "'", "# \n", "---"])
    return f"---\na:\n{filling * (rng.randrange(1, 12) << 20)}\n---\n".encode()


def read_card(world: World, kind: Callable[[random.Random], bytes], seed: int) -> str:
    """Read a data set with a card: pairs, or one line."""
    folder = data_set(world)
    for name in ("README.md", ".huggingface.yaml"):
        (folder / name).unlink(missing_ok=True)
    rng = random.Random(f"{kind.__name__} {seed}")
    card = kind(rng)
    (folder / "README.md").write_bytes(card)
    if rng.random() < 0.2:
        (folder / "README.md").rename(folder / ".huggingface.yaml")
    said = [f"data.path={folder}", "data.source=de", "data.target=en"]
    options = plain(configuration("train", "data=huggingface", *said))["data"]
    try:
        with limited():
            corpus = build_corpus(options)
            return "" if len(corpus.splits["train"]) else "no pairs"
    except UserError as error:
        return str(error) if "\n" in str(error) or len(str(error)) > 1000 else ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@cache
def data_set(world: World) -> Path:
    """A data set whose files have long names."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = world.folder / "set"
    for split in ("train", "validation", "test"):
        path = folder / "data" / f"{split}-{'a' * 60}-{'a' * 60}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"de": ["a b", "c"], "en": ["d", "e f"]}), path)
    return folder


@contextmanager
def limited() -> Iterator[None]:
    """Raise an error in what hangs."""

    def stop(*_: object) -> None:
        raise TimeoutError("a hang")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
