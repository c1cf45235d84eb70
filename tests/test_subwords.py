from __future__ import annotations

import io
import os
import random
import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from simulmt.data.subwords import SUBWORDS, Subwords, _trained
from simulmt.data.text import normalise
from simulmt.errors import UserError
from simulmt.options import construct
from zoo import BOS, EOS, PAD, UNK

SPACE = "\u2581"
TEXT = [
    "ein Mann mit einem Hut sitzt auf einer Bank",
    "a man with a hat sits on a bench",
    "zwei Männer ( und eine Frau ) gehen über die Straße",
    "two men < and a woman > cross the street , slowly .",
    "<s> </s> <pad> <unk> ⁇ ﬁ Ⅷ p /",
] * 3
SIZE = 62


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def subwords(request: pytest.FixtureRequest) -> Subwords:
    return Subwords.train(TEXT, SIZE, request.param)


def test_special_ids_and_size(subwords: Subwords) -> None:
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    assert subwords.pieces(range(4)) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert len(subwords) == SIZE
    assert len(subwords.digest) == 64


def test_round_trip(subwords: Subwords) -> None:
    for line in TEXT:
        ids = subwords.encode(line)
        check_words(subwords, ids)
        assert subwords.decode(ids) == line
        assert UNK not in ids
        assert min(ids) > EOS
    rows = subwords.encode_rows(TEXT)
    assert [row.tolist() for row in rows] == [[*subwords.encode(line), EOS] for line in TEXT]
    assert len(subwords.encode_rows([])) == 0


@pytest.mark.parametrize(
    "text", ["  a\u00a0man \t", f"{SPACE}a{SPACE}{SPACE}man", "u\u0308ber", "a\u2028man\x85\r\n"]
)
def test_encode_normalises(subwords: Subwords, text: str) -> None:
    assert subwords.decode(subwords.encode(text)) == normalise(text)


def test_unknown_characters_are_visible(subwords: Subwords) -> None:
    ids = subwords.encode("a QQman Q")
    assert UNK in ids
    assert subwords.decode(ids) == "a ⁇man ⁇"
    assert len(subwords.words_touched(ids).ends) == 3


@pytest.mark.parametrize(
    "line",
    ["he said <unk> to <s> me </s>", "x <pad> y", "a = {b} \u2585 \u03a9", "x ; y \0 \u03a8"],
)
def test_what_sentencepiece_would_drop_has_its_characters(line: str) -> None:
    more = "the quick brown fox jumps over a lazy dog and runs"
    own = Subwords.train([line, more] * 20, 60, "bpe")
    kept = line.replace("\u2585", "\u2047").replace("\0", "\u2047")
    assert own.decode(own.encode(line)) == kept


def check_words(subwords: Subwords, ids: list[int]) -> None:
    words = subwords.decode(ids).split()
    touched = subwords.words_touched(ids)
    ends = touched.ends
    assert len(ends) == len(words) == max(touched, default=0)
    assert len(touched) == len(ids)
    assert [*touched] == sorted(touched)
    assert set(touched) == set(range(1, len(words) + 1)) or not words
    start = 0
    for number, (word, end) in enumerate(zip(words, ends, strict=True), 1):
        assert subwords.decode(ids[start:end]) == word
        assert touched[start:end] == (number,) * (end - start)
        start = end
    assert not words or start == len(ids)


def test_words_of_anything_a_decoder_may_write(subwords: Subwords) -> None:
    rng = random.Random(1)
    blank = subwords.pieces(range(SIZE)).index(SPACE)
    pool = [UNK, blank, blank, *range(EOS + 1, SIZE)]
    three = [UNK, blank, subwords.encode("a")[-1]]
    for _ in range(500):
        check_words(subwords, rng.choices(pool, k=rng.randrange(9)))
        check_words(subwords, rng.choices(three, k=rng.randrange(7)))


def test_words_by_hand(subwords: Subwords) -> None:
    blank = subwords.pieces(range(SIZE)).index(SPACE)
    inner = next(i for i, p in enumerate(subwords.pieces(range(SIZE))) if i > EOS and p == "e")
    assert subwords.words_touched([inner, blank, blank, inner, UNK]) == (1, 2, 2, 2, 2)
    assert subwords.words_touched([inner, blank, blank, inner, UNK]).ends == [1, 5]
    assert subwords.words_touched([blank, inner, blank]) == (1, 1, 1)
    assert subwords.words_touched([blank, blank]) == (0, 0)
    assert subwords.words_touched([blank, blank]).ends == []


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize(
    ("size", "step", "bound"), [(5000, 1, "<= "), (9, -1, r"required_chars\. \d+ vs ")]
)
def test_a_size_out_of_range_names_the_limit(kind: str, size: int, step: int, bound: str) -> None:
    with pytest.raises(UserError, match=rf"size={size} with {kind}") as error:
        Subwords.train(TEXT, size, kind)
    limit = int(re.search(rf"{bound}(\d+)", str(error.value))[1])
    assert len(Subwords.train(TEXT, limit, kind)) == limit
    with pytest.raises(UserError, match=f"{bound}{limit}"):
        Subwords.train(TEXT, limit + step, kind)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 4}, "size is 4"),
        ({"character_coverage": 0.5}, r"character_coverage is 0\.5"),
        ({"sentences": [" ", ""]}, "no text to train subwords on: give at least one"),
        ({"sentences": ["a" * 70_000]}, r"size=\d+ with unigram: .*trainer_interface"),
    ],
)
def test_impossible_choices(options: dict[str, object], message: str) -> None:
    choices = {"sentences": TEXT, "size": SIZE, **options}
    given = {"sentences": choices.pop("sentences")}
    with pytest.raises(UserError, match=message):
        construct(Subwords.train, choices, "data.subwords", given)


def test_unusable_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "joint.model"
    with pytest.raises(FileNotFoundError):
        Subwords.load(path)
    for content in (b"", b"no model at all", b"\0" * 40):
        path.write_bytes(content)
        message = rf"joint\.model: .*{len(content)} bytes.*give a \.model"
        with pytest.raises(UserError, match=message):
            Subwords.load(path)


def trained_elsewhere(**options: Any) -> dict[str, bytes]:
    model = io.BytesIO()
    settings: dict[str, Any] = {
        "pad_id": 0,
        "unk_id": 1,
        "bos_id": 2,
        "eos_id": 3,
        "minloglevel": 3,
        "normalization_rule_name": "identity",
        **options,
    }
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=model, model_type="bpe", **settings
    )
    return {SUBWORDS: model.getvalue()}


def test_models_trained_elsewhere(tmp_path: Path) -> None:
    assert Subwords(trained_elsewhere(vocab_size=80)).decode([UNK, UNK]) == "⁇⁇"
    message = r"'pad_id': -1, 'unk_id': 0.* instead of .*'pad_id': 0.*train one"
    with pytest.raises(UserError, match=message):
        Subwords(trained_elsewhere(vocab_size=80, pad_id=-1, unk_id=0, bos_id=1, eos_id=2))
    with pytest.raises(UserError, match=r"spans words.*without byte_fallback"):
        Subwords(trained_elsewhere(vocab_size=330, byte_fallback=True, hard_vocab_limit=False))
    with pytest.raises(UserError, match=r"spans words.*split_by_whitespace"):
        Subwords(trained_elsewhere(vocab_size=150, split_by_whitespace=False))
    path = tmp_path / "joint.model"
    for rule in ("nmt_nfkc", "nmt_nfkc_cf"):
        model = trained_elsewhere(vocab_size=80, normalization_rule_name=rule)
        path.write_bytes(model[SUBWORDS])
        with pytest.raises(UserError, match=r"joint\.model: .*reads '.*' as '.*=identity"):
            Subwords.load(path)
    rules = tmp_path / "rules.tsv"
    rules.write_text("201C\t22\n201D\t22\n", encoding="utf-8")
    own = {"normalization_rule_name": "", "normalization_rule_tsv": str(rules)}
    with pytest.raises(UserError, match=r"reads '“' as '▁\"': train one with .*=identity"):
        Subwords(trained_elsewhere(vocab_size=80, **own))
    with pytest.raises(UserError, match=r"reads '!' as '!': train one with .*add_dummy_prefix"):
        Subwords(trained_elsewhere(vocab_size=80, add_dummy_prefix=False))


def test_ctrl_c_does_not_wait_for_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, begun, end = signal.getsignal(signal.SIGINT), threading.Event(), threading.Event()
    where = []

    def train(**_: object) -> None:
        where.append(threading.current_thread())
        begun.set()
        end.wait(60)

    def interrupt() -> None:
        if begun.wait(60):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(sentencepiece.SentencePieceTrainer, "train", train)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            Subwords.train(TEXT, 80)
    finally:
        end.set()
        signal.signal(signal.SIGINT, usual)
    assert where != [threading.main_thread()]


def models(cache: Path) -> list[Path]:
    return [*cache.glob("*/subwords.model")]


def test_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def counted(*arguments: object) -> bytes:
        runs.append(arguments)
        return _trained(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("simulmt.data.subwords._trained", counted)
    cache = tmp_path / "deep" / "cache"
    first = Subwords.train(TEXT, SIZE, cache=cache, digest="TEXT")
    (model,) = models(cache)
    assert Subwords.train(TEXT, SIZE, cache=cache, digest="TEXT").files == first.files
    assert len(runs) == 1
    good = model.read_bytes()
    for damaged in (b"", good[:-1], good[:-1] + b"?", b"junk"):
        model.write_bytes(damaged)
        assert Subwords.train(TEXT, SIZE, cache=cache, digest="TEXT").files == first.files
        assert model.read_bytes() == good
    assert len(runs) == 5
    Subwords.train([*TEXT, "more"], SIZE, cache=cache, digest="more")
    Subwords.train(TEXT, SIZE - 1, cache=cache, digest="TEXT")
    Subwords.train(TEXT, SIZE, "bpe", cache=cache, digest="TEXT")
    Subwords.train(TEXT, SIZE - 1, character_coverage=0.99, cache=cache, digest="TEXT")
    assert len(runs) == 9
    assert len(models(cache)) == 5
