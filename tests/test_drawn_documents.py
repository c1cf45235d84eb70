"""Documents drawn from sentences, and sources that have lost marks and capitals."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from simulmt.data.corpus import SPLITS, Corpus, Split
from simulmt.data.documents import Documents
from simulmt.data.encoded import EncodedSplit
from simulmt.data.recognised import as_recognised, without_marks
from simulmt.data.resegmented import as_in, at_punctuation, resegmented
from simulmt.data.subwords import Subwords
from simulmt.data.text import normalise
from simulmt.data.verbfinal import verbfinal
from simulmt.errors import UserError
from simulmt.options import Config
from simulmt.parts.builders import Data, build_corpus

FIXED = {"name": "mine", "subwords": {"size": 9}, "batch_tokens": 100}
GENERATED: Config = {
    **FIXED,
    "corpus": "verbfinal",
    "seed": 1,
    "train": 305,
    "valid": 41,
    "test": 1,
}


def corpus(**options: Any) -> Corpus:
    return build_corpus({**GENERATED, **options})


@pytest.fixture
def files(tmp_path: Path) -> Mapping[str, Any]:
    """Options of text in files, without ids of documents; two training pairs are dropped."""
    for name, split in verbfinal(1, 300, 40, 30).splits.items():
        more = [("", "empty"), ("long " * 200, "long")] if name == "train" else []
        rows = [*zip(split.sources, split.targets, strict=True), *more]
        for language, lines in zip(("de", "en"), zip(*rows, strict=True), strict=True):
            (tmp_path / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines))
    stems = {name: name for name in SPLITS}
    languages = {"source": "de", "target": "en", "max_words": 150}
    return {**FIXED, "corpus": "text", "root": str(tmp_path), **languages, **stems}


def check_documents(split: Split, least: int, most: int) -> None:
    """Every pair is in exactly one document, in order; only the last one may be shorter."""
    groups = [*split.documents.values()]
    assert [place for places in groups for place in places] == [*range(len(split))]
    assert all(least <= len(places) <= most for places in groups[:-1])
    assert 1 <= len(groups[-1]) <= most


@pytest.mark.parametrize("join", [(20, 20), (1, 1), (10, 30), (1000, 1000)])
def test_every_sentence_is_in_one_document_and_stays_what_it_is(join: tuple[int, int]) -> None:
    plain, joined = corpus(), corpus(documents=True, join=[*join])
    for name in SPLITS:
        one, other = plain.splits[name], joined.splits[name]
        check_documents(other, *join)
        assert not one.documents
        assert (one.sources, one.targets, one.links) == (other.sources, other.targets, other.links)
        again = corpus(documents=True, join=[*join]).splits[name]
        assert again.documents == other.documents
    lengths = {len(places) for places in joined.splits["train"].documents.values()}
    assert join != (10, 30) or len(lengths) > 5


def test_documents_of_files_need_no_ids(files: Config) -> None:
    plain = build_corpus(files)
    joined = build_corpus({**files, "documents": True, "join": [10, 30]})
    for name in SPLITS:
        assert joined.splits[name].sources == plain.splits[name].sources
        check_documents(joined.splits[name], 10, 30)
    assert joined.splits["train"].dropped == {"empty": 1, "too_long": 1}
    with pytest.raises(UserError, match=r"test has no documents: set data.join=.*STEM\.docid"):
        build_corpus({**files, "documents": True}).splits["test"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"join": [0, 3]}, "data.join.0 is 0; it must be greater than or equal to 1"),
        ({"join": [5]}, "data.join.1"),
        ({"join": 20}, "data.join is 20"),
        ({"unpunctuated": 1.5}, "data.unpunctuated is 1.5; it must be less than or equal to 1"),
        ({"lowercased": -1}, "data.lowercased is -1; it must be greater than or equal to 0"),
    ],
)
def test_options_out_of_range_are_named(options: Config, message: str) -> None:
    with pytest.raises(UserError) as caught:
        Data.of({**GENERATED, **options})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_corpus_without_documents_needs_them_drawn() -> None:
    with pytest.raises(UserError, match=r"test has no documents: set data\.join="):
        corpus(documents=True).splits["test"]


# --------------------------------------------------------------------- without marks and capitals


def test_marks_are_what_unicode_says() -> None:
    assert (
        without_marks("„Nein“, sagt er – und geht's an: 5 € !") == "Nein sagt er und geht's an 5 €"
    )
    assert without_marks("... !") == "... !"
    assert without_marks("") == ""
    for line in verbfinal(1, 200, 0, 0).splits["train"].sources:
        bare = without_marks(line)
        assert bare == without_marks(bare)
        assert bare.split() == [word for word in line.split() if word not in {".", ","}]
        assert not any(unicodedata.category(letter).startswith("P") for letter in bare)


def styles(plain: Split, changed: Split) -> list[tuple[bool, bool]]:
    """For each document, whether all of its sentences have lost marks, and capitals."""
    assert changed.targets == plain.targets
    found = []
    for places in changed.documents.values():
        before = [plain.sources[place] for place in places]
        after = [changed.sources[place] for place in places]
        bare = not after[0].endswith(".")
        kept = [without_marks(source) if bare else source for source in before]
        lower = after == [source.lower() for source in kept]
        assert lower or after == kept, "all sentences of a document alike"
        found.append((bare, lower))
    return found


@pytest.mark.parametrize("shares", [(0, 0), (1, 1), (0.3, 0.6), (0, 0.5), (1, 0)])
def test_documents_lose_marks_and_capitals_by_their_shares(shares: tuple[float, float]) -> None:
    whole = {"documents": True, "join": [20, 20], "train": 8000}
    lost = {"unpunctuated": shares[0], "lowercased": shares[1]}
    plain, changed = corpus(**whole), corpus(**whole, **lost)
    drawn = styles(plain.splits["train"], changed.splits["train"])
    count = len(drawn)
    for share, hits in zip(shares, map(sum, zip(*drawn, strict=True)), strict=True):
        # five standard deviations of a binomial: one seed in a million
        assert abs(hits - share * count) <= 5 * math.sqrt(count * share * (1 - share))
    for name in ("valid", "test"):
        for style in styles(plain.splits[name], changed.splits[name]):
            assert style == (shares[0] == 1, shares[1] == 1)
    assert changed.splits["train"].sources == corpus(**whole, **lost).splits["train"].sources


def test_sentences_without_documents_draw_one_by_one() -> None:
    changed = corpus(unpunctuated=0.5).splits["train"]
    ends = [source.endswith(".") for source in changed.sources]
    assert 100 < sum(ends) < 205
    assert not changed.documents


def test_links_follow_the_words() -> None:
    plain = corpus().splits["train"]
    bare = as_recognised(plain, 1, 0)
    assert plain.links
    assert bare.links
    for n, (before, after) in enumerate(zip(plain.links, bare.links, strict=True)):
        words, kept = plain.sources[n].split(), bare.sources[n].split()
        for one, other in zip(before, after, strict=True):
            expected = [words[link - 1] for link in one if words[link - 1] not in {".", ","}]
            assert [kept[link - 1] for link in other][-len(expected) or len(other) :] == expected
        assert after[-1] == (len(kept),)  # the full stop comes with the last word


def test_caches_differ_by_the_options(files: Config, tmp_path: Path) -> None:
    """The ids of a cache are those of the text that the options make."""
    cache = tmp_path / "cache"
    digests, rows = set(), []
    for options in ({}, {"unpunctuated": 1}, {"lowercased": 1}, {"unpunctuated": 0.5}):
        split = build_corpus({**files, **options}, cache=cache).splits["train"]
        subwords = Subwords.train(split.sample(), 150, "bpe")
        cached, fresh = (EncodedSplit.encode(split, subwords, at) for at in (cache, None))
        assert [*cached.sources.values] == [*fresh.sources.values]
        digests.add((split.sha256[0], subwords.digest))
        rows.append(subwords.encode("Anna ."))
    assert len({sha for sha, _ in digests}) == len({digest for _, digest in digests}) == 4


def test_the_options_are_a_value() -> None:
    assert Documents() == Documents(False, None, 0, 0)


def test_a_lowercased_line_is_normalised():
    split = as_recognised(Split(["H\u0331asan W\u030aa"], ["x"]), 0, 1)
    assert [*split.sources] == [normalise("h\u0331asan w\u030aa")] != ["h\u0331asan w\u030aa"]


def test_a_sentence_has_20_words_and_a_mark_or_40():
    words = ["a"] * 18 + ["b."] + ["c"] * 5 + ["d."] + ["e"] * 19 + ["f."] + ["g"] * 41
    assert [len(sentence) for sentence in at_punctuation(words)] == [25, 20, 40, 1]


def test_documents_of_characters_end_at_their_own_marks_and_as_in_a_file(tmp_path):
    lines = ["あ" * 24 + "。", "い" * 21 + "？", "う" * 5]
    text = "".join(lines)
    split = Split([" ".join(text)], ["x"], documents={"1": range(1)})
    assert ["".join(line.split()) for line in resegmented(split, at_punctuation).sources] == lines
    path = tmp_path / "sentences"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    again = as_in(split, path, characters=True)
    assert ["".join(line.split()) for line in again.sources] == lines
    path.write_text("".join(f"{line}\n" for line in [*lines, "え"]), encoding="utf-8")
    with pytest.raises(UserError, match="continues after the source, at 'え'"):
        as_in(split, path, characters=True)
