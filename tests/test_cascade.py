"""Lines of a recogniser: no confirmed word depends on what was not yet certain."""

from __future__ import annotations

import io
import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import zoo
from simulmt.data.subwords import Subwords
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.cuts import CUTS
from simulmt.decoding.policies import NewestToken, Retranslation, WaitK
from simulmt.decoding.policy import Policy
from simulmt.decoding.writing import WORDS
from simulmt.live import cascade
from simulmt.live.cascade import Cascade, LiveTranslator, Piece, StageLine, copied, translate_lines
from simulmt.live.stream import StreamTranslator
from simulmt.live.translator import Translator

CPU = torch.device("cpu")
FIELDS = {"emission_time", "end", "status", "text", "unconfirmed_text", "is_final"}


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier limits: untrained models rarely end early."""
    zoo.limit_length(monkeypatch, lambda read: read + 2)


@cache
def text() -> tuple[Subwords, list[list[str]]]:
    """Subwords, and sentences in words."""
    split = verbfinal(1, 20, 200, 20).splits["valid"]
    return Subwords.train(split.sample(), 400, "bpe"), [s.split() for s in split.sources if s]


def reader(
    mechanism: str, cut: str = "", policy: Policy | None = None, kind: str = "transformer"
) -> LiveTranslator:
    """A stream that the model cuts; without a cut, sentences that end at pauses."""
    subwords, own = text()[0], {"boundaries": True} if cut else {}
    chosen = zoo.options(mechanism)
    model = zoo.model(chosen, 1, kind, vocabulary=subwords.vocabulary, **own)
    if cut:
        return StreamTranslator(model, subwords, CUTS[cut])
    return Translator(model, subwords, CPU, policy)


def recognised(seed: int, spaces: bool = True, most: int = 6) -> list[StageLine]:
    """What a made-up recogniser writes about two sentences.

    Each sentence has at most `most` words. The last two words are uncertain, and are often
    misheard; certain words are right. Some marks are dropped, and the speaker may pause anywhere.
    """
    draw = random.Random(seed)
    said = [word for _ in range(2) for word in draw.choice(text()[1])[: draw.randint(1, most)]]
    said = [word for word in said if word not in {".", ","} or draw.random() < 0.5]
    others = [word for sentence in text()[1] for word in sentence]
    space, lines, certain = " " * spaces, list[StageLine](), 0
    for count in range(1, len(said) + 1):
        pause = count == len(said) or draw.random() < 0.1
        until = count if pause else max(certain, count - 2)
        words = [(n, said[n]) for n in range(certain, until)]
        pieces = tuple(Piece(space + word, n + 0.5) for n, word in words)
        tail = [draw.choice(others) if draw.random() < 0.4 else w for w in said[until:count]]
        found = "".join(piece.text for piece in pieces) if spaces else " ".join(w for _, w in words)
        final = pause and draw.random() < 0.5
        end = pieces[-1].end if pieces else None
        lines.append(StageLine(count + 0.25, found, end, pieces, " ".join(tail), final))
        if pause and not final:
            lines.append(StageLine(count + 0.3, is_final=True))
        certain = until
    return lines


def answered(
    one: LiveTranslator, lines: Sequence[StageLine], aware: bool = False
) -> list[dict[str, Any]]:
    """What is written for some lines, all of them valid."""
    output = io.StringIO()
    raw = [f"{json.dumps(asdict(line))}\n".encode() for line in lines]
    translate_lines(Cascade(one, pytest.fail, aware), raw, output, pytest.fail)
    return [json.loads(line) for line in output.getvalue().splitlines()]


def check(one: LiveTranslator, sessions: range, spaces: bool, most: int = 6) -> int:
    """No confirmed word depends on what was uncertain; return how many drafts there were."""
    drafts = 0
    for seed in sessions:
        lines = recognised(seed, spaces, most)
        found = answered(one, lines)
        assert len(found) == len(lines), "one line for each"
        assert all({*line} == FIELDS and line["status"] == "COMPLETE" for line in found)
        assert [line["emission_time"] for line in found] == [line.emission_time for line in lines]
        assert [line["is_final"] for line in found] == [line.is_final for line in lines]
        ends = [line["end"] for line in found if line["end"] is not None]
        assert ends == sorted(ends)
        assert all(not line["unconfirmed_text"] for line in found if line["is_final"])
        bare = [replace(line, unconfirmed_text="") for line in lines]
        sure = [line["text"] for line in answered(one, bare)]
        assert [line["text"] for line in found] == sure
        assert all(text == "" or text[0] == " " for text in sure), "texts can be joined"
        drafts += sum(line["unconfirmed_text"] != "" for line in found)
    return drafts


READERS: dict[str, Callable[[], LiveTranslator]] = {
    "wait-k, pointer": lambda: reader("wait_k", "pointer"),
    "wait-k, likelihood": lambda: reader("wait_k", "likelihood"),
    "MMA-IL, reading": lambda: reader("mma_il", "reading"),
    "MMA-IL, sentences": lambda: reader("mma_il"),
    "policy": lambda: reader("soft", policy=WaitK(k=1)),
    "re-translation": lambda: reader("soft", policy=Retranslation()),
    "newest token": lambda: reader("mma_il", policy=NewestToken(threshold=0.4)),
    "recurrent": lambda: reader("milk", "pointer", kind="rnmt_plus"),
}


@pytest.mark.parametrize("name", READERS)
def test_no_confirmed_word_depends_on_what_was_uncertain(name: str) -> None:
    one = READERS[name]()
    drafts = check(one, range(4), True, most=3) + check(one, range(4, 8), False, most=3)
    assert drafts or name == "newest token", "without drafts this says nothing"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "seeds"),
    [("wait-k, pointer", range(500)), ("MMA-IL, sentences", range(500, 1000))],
)
def test_a_thousand_sessions(name: str, seeds: range) -> None:
    assert check(READERS[name](), seeds, spaces=True, most=3) > 100


@pytest.mark.parametrize("name", READERS)
def test_what_is_confirmed_is_what_is_read_without_lines(name: str) -> None:
    for seed in range(3):
        lines, one, expected = recognised(seed), READERS[name](), list[str]()
        words = list[str]()
        for line in lines:
            words += line.text.split()
            if line.is_final:
                one.reset()
                expected += [new for word in [*words, None] for new in one.read(word)]
                words = []
        assert "".join(line["text"] for line in answered(one, lines)).split() == expected


@pytest.mark.parametrize("name", READERS)
def test_a_copy_goes_on_as_the_original_and_leaves_it_alone(name: str) -> None:
    one, words = READERS[name](), [*text()[1][0], *text()[1][1]]
    for word in words[:5]:
        one.read(word)
    before, copies = one.undecided, [copied(one), copied(one)]
    assert copies[0].model is one.model
    assert copies[0].stream.model is one.stream.model, "weights are never copied"
    for word in reversed(words):
        copies[1].read(word)
    assert one.undecided == before
    for word in words[5:]:
        assert copies[0].read(word) == one.read(word)
    assert copies[0].read(None) == one.read(None)


class Echo(Translator):
    """Writes each word in capitals once the next one is there; five words are a full sentence."""

    subwords = SimpleNamespace(writing=WORDS)

    def __init__(self) -> None:
        self.heard = list[str | None]()
        self.reset()

    def reset(self) -> None:
        self.count, self.last = 0, list[str]()

    def read(self, word: str | None) -> list[str]:
        self.heard.append(word)
        self.count += 1
        before, self.last = self.last, [word.upper()] if word else []
        return before

    @property
    def full(self) -> bool:
        return self.count == 5

    @property
    def undecided(self) -> list[str]:
        return self.last


@pytest.fixture(autouse=True)
def echoes(monkeypatch: pytest.MonkeyPatch) -> None:
    def echo(one: LiveTranslator) -> LiveTranslator:
        if not isinstance(one, Echo):
            return copied(one)
        other = Echo()
        other.last = one.last
        return other

    monkeypatch.setattr(cascade, "copied", echo)


def test_pieces_are_joined_where_spaces_are_spelled() -> None:
    echo = Echo()
    stage = Cascade(echo, pytest.fail)
    parts = [" And", " Ameri"], ["cans", ","], [" ask"], [" "]
    found = [
        stage.translate(
            StageLine(0, words=tuple(Piece(text, n + 0.1 * m) for m, text in enumerate(p)))
        )
        for n, p in enumerate(parts)
    ]
    assert echo.heard == ["And", "Americans,", "ask"]
    assert [line.text for line in found] == ["", "", " AND", " AMERICANS,"]
    assert [line.unconfirmed_text for line in found] == [
        *("AND AMERI", "AND AMERICANS,"),
        *("AMERICANS, ASK", "ASK"),
    ]
    assert [line.end for line in found] == [0, 0, 1.1, 2]
    last = stage.translate(StageLine(9, is_final=True))
    assert (last.text, last.unconfirmed_text, last.end) == (" ASK", "", 2)
    stage.translate(StageLine(10, words=(Piece("bare", 10), Piece("words", 11))))
    assert echo.heard[4:] == ["bare", "words"], "a pause forgets how spaces were written"
    stage.translate(StageLine(12, "more\u2581text ", 12, unconfirmed_text="tail"))
    assert echo.heard[6:8] == ["more", "text"]


def test_a_sentence_that_is_too_long_is_ended_and_no_word_is_lost() -> None:
    warnings = list[str]()
    stage = Cascade(Echo(), warnings.append)
    said = [
        stage.translate(StageLine(0, "a b c d e f g h i j k")),
        stage.translate(StageLine(1, is_final=True)),
    ]
    assert "".join(line.text for line in said) == " A B C D E F G H I J K"
    assert len(warnings) == 2


def test_a_sentence_that_is_too_long_keeps_how_spaces_are_written() -> None:
    echo = Echo()
    stage = Cascade(echo, lambda _: None)
    stage.translate(StageLine(0, " a b c d e f g h i j k"))
    stage.translate(StageLine(1, words=(Piece("l"), Piece("m"))))
    stage.translate(StageLine(2, " n", is_final=True))
    assert [word for word in echo.heard if word][-2:] == ["klm", "n"]


def test_computing_time_is_added_and_never_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0, 3, 10, 12, 20, 21])
    monkeypatch.setattr(cascade.time, "perf_counter", lambda: next(clock))
    stage = Cascade(Echo(), pytest.fail, computation_aware=True)
    found = [stage.translate(StageLine(at, "word")).emission_time for at in (1, 2, 50)]
    assert found == [4, 6, 51], "the second begins once the first has ended"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("", "Invalid JSON"),
        ("{", "Invalid JSON"),
        ("[1]", "object"),
        ('{"text": "a"}', "emission_time: Field required"),
        ('{"emission_time": "1"}', "emission_time: Input should be a valid number"),
        ('{"emission_time": NaN}', "emission_time: Input should be a finite number"),
        ('{"emission_time": 1, "is_final": 1}', "is_final"),
        ('{"emission_time": 1, "words": [{"end": 2}]}', "words.0.text: Field required"),
        ('{"emission_time": 1, "text": "\\ud800"}', "Invalid JSON"),
    ],
)
def test_a_faulty_line_is_skipped_with_its_number_and_the_session_goes_on(
    line: str, fault: str
) -> None:
    good = [json.dumps(asdict(StageLine(n, f"word{n}"))) for n in range(2)]
    output, warnings = io.StringIO(), list[str]()
    raw = [f"{text}\n".encode() for text in (good[0], line, good[1])]
    translate_lines(Cascade(Echo(), pytest.fail), raw, output, warnings.append)
    (warning,) = warnings
    assert warning.startswith("warning: line 2 is skipped: ")
    assert fault in warning
    assert "\n" not in warning
    found = [json.loads(text) for text in output.getvalue().splitlines()]
    assert "".join(each["text"] for each in found) == " WORD0 WORD1", "the end of input is final"
    assert [each["is_final"] for each in found] == [False, False, True]


def test_every_line_is_flushed_before_the_next_is_read(tmp_path: Path) -> None:
    sizes = [0]

    def lines() -> Iterator[bytes]:
        for n in range(3):
            yield json.dumps(asdict(StageLine(n, f"word{n}", is_final=n == 2))).encode()
            sizes.append(os.fstat(output.fileno()).st_size)

    with (tmp_path / "output").open("w", encoding="utf-8") as output:
        translate_lines(Cascade(Echo(), pytest.fail), lines(), output, pytest.fail)
    assert sizes == sorted({*sizes})


def test_a_translation_is_a_source_again() -> None:
    """Text in a second language may go on into a third; only COMPLETE lines count."""
    line = {"emission_time": 1, "end": None, "text": " a b", "unconfirmed_text": "c", "tokens": [1]}
    raw = [
        json.dumps({**line, "status": status, "is_final": status == "COMPLETE"}).encode()
        for status in ("INCOMPLETE", "COMPLETE")
    ]
    output = io.StringIO()
    translate_lines(Cascade(Echo(), pytest.fail), raw, output, pytest.fail)
    (found,) = map(json.loads, output.getvalue().splitlines())
    assert (found["text"], found["end"]) == (" A B", None)
    output = io.StringIO()
    open_line = json.dumps({**line, "status": "COMPLETE", "is_final": False}).encode()
    ended = json.dumps({**line, "status": "INCOMPLETE", "is_final": True}).encode()
    translate_lines(Cascade(Echo(), pytest.fail), [open_line, ended], output, pytest.fail)
    assert [json.loads(each)["is_final"] for each in output.getvalue().splitlines()] == [
        False,
        True,
    ]
