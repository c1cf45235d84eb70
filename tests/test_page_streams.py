"""The page with sentences=model, in a real browser: a stream that runs on."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median

import pytest

import zoo
from serving import running
from simulmt.serve import panes
from simulmt.serve.messages import Setting
from test_page import (  # noqa: F401  (fixtures)
    CHROMIUM,
    browser,
    expect,
    lose_connections,
    opened,
    page,
    saved,
    translation,
    wait_for,
)
from test_serve_streams import DOCUMENTS, WORDS, ends, interpreted, written

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; install it")


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier limit: untrained models rarely end early."""
    zoo.limit_length(monkeypatch, lambda read: read // 2 + 2)


@pytest.fixture(scope="module")
def run(trained_once) -> Path:
    return trained_once(*DOCUMENTS)


@pytest.fixture(scope="module")
def at(run):
    with running([run], cut="pointer") as server:
        yield server


def parts(page) -> list[str]:  # noqa: F811
    """The text of the source between its boundaries."""
    return [text.strip() for text in page.locator("#source p").all_text_contents() if text.strip()]


def sentences(run: Path, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The source and the translation of each sentence of a stream that has ended."""
    events, sources, targets, place, count = interpreted(run, words), [], [], 0, 0
    own = [word for word, _ in written(events)]
    for _, now, length in ends(events):
        sources.append(" ".join(words[place : place + length]))
        targets.append(" ".join(own[count:now]))
        place, count = place + length, now
    return sources, targets


def paste(page, text: str) -> None:  # noqa: F811
    page.evaluate(
        """text => {
            const data = new DataTransfer();
            data.setData("text", text);
            const paste = new ClipboardEvent("paste", {clipboardData: data, cancelable: true});
            document.getElementById("word").dispatchEvent(paste);
        }""",
        text,
    )


def test_boundaries_are_drawn_where_the_model_ends_sentences(page, at, run) -> None:  # noqa: F811
    """Enter and pasted lines are spaces; `End text` writes the rest, and another stream begins."""
    opened(page, at)
    page.keyboard.type(" ".join(WORDS[:4]))
    page.keyboard.press("Enter")
    paste(page, "\n".join(WORDS[4:]) + "\n")
    before, _ = sentences(run, WORDS)
    wait_for(page, lambda: " ".join(parts(page)).split() == WORDS)
    assert before[0] in parts(page), "words behind the first end belong to the next sentence"
    columns = page.locator(".columns title").all_text_contents()
    assert columns == WORDS[-len(columns) :]
    assert len(columns) < len(WORDS), "the path of earlier sentences is forgotten"
    assert page.locator(".cells .edge").get_attribute("d")
    page.click("#end")
    sources, targets = sentences(run, WORDS)
    wait_for(page, lambda: [text for text in translation(page) if text] == targets)
    assert parts(page) == sources
    paragraphs = saved(page, "#transcript").strip().split("\n\n")
    found = [paragraph.split("\n") for paragraph in paragraphs]
    assert [source for source, _ in found] == sources
    assert [text.partition(": ")[2] for _, text in found] == targets
    page.keyboard.press("Tab")
    page.locator("#word").focus()
    page.keyboard.type("Anna ")
    wait_for(page, lambda: parts(page) == [*sources, "Anna"])


def test_each_of_two_panes_draws_its_own_boundaries(page, run) -> None:  # noqa: F811
    with running([run], [Setting(), Setting(dials={"k": 1})], cut="pointer") as at:
        opened(page, at)
        page.keyboard.type(" ".join(WORDS) + " ")
        page.click("#end")
        streams = [interpreted(run, WORDS), interpreted(run, WORDS, k=1)]
        for pane, events in enumerate(streams):
            count = len(ends(events)) + 1  # and the next one, which is empty
            wait_for(page, lambda p=pane, count=count: len(translation(page, p)) == count)
        drawn, place = list[tuple[int, str]](), 0
        for part in page.locator("#source p").all():
            drawn += [(place, part.get_attribute("data-pane") or "")] * bool(place)
            place += len(part.text_content().split())
        first, second = ({*accumulate(end[2] for end in ends(events))} for events in streams)
        labels = {at: "" if at in first & second else "12"[at in second] for at in first | second}
        assert drawn == sorted(labels.items())
        assert {"1", "2"} & {*labels.values()}, "with equal ends this says nothing"
        page.goto("about:blank")


def test_after_a_lost_connection_the_open_sentence_is_typed_again(page, at) -> None:  # noqa: F811
    opened(page, at)
    page.keyboard.type(" ".join(WORDS[:20]) + " ")
    wait_for(page, lambda: " ".join(parts(page)).split() == WORDS[:20])
    kept = parts(page)[:-1]
    assert kept, "without an end this says nothing"
    earlier = translation(page)[: len(kept)]
    lose_connections(at)
    page.keyboard.type(" ".join(WORDS[20:]) + " ")
    wait_for(page, lambda: " ".join(parts(page)).split() == WORDS)
    assert parts(page)[: len(kept)] == kept
    assert translation(page)[: len(kept)] == earlier
    expect(page.locator("#notice")).to_contain_text("open sentence was typed again")
    expect(page.locator("#waiting")).to_be_hidden()
    found = saved(page, "#transcript").strip().split("\n\n")
    assert " ".join(paragraph.split("\n")[0] for paragraph in found).split() == WORDS


def test_a_model_is_chosen_with_a_policy_that_ends_sentences(page, run, trained_once) -> None:  # noqa: F811
    offline = trained_once("mechanism=soft", *DOCUMENTS[1:])
    with running([run, offline], cut="pointer") as at:
        opened(page, at)
        page.click("#add")
        page.locator("select[name=model]").nth(0).select_option("1")
        expect(page.locator(".pane.changing")).to_have_count(0)
        for pane in page.locator(".pane").all():
            expect(pane.locator("select[name=model]")).to_have_value("1")
            expect(pane.locator("select[name=policy] option:checked")).to_be_enabled()
        expect(page.locator("#notice")).to_be_hidden()


def test_a_failure_ends_its_sentence_alone(page, run, monkeypatch) -> None:  # noqa: F811
    def fail(*_: object) -> None:
        raise RuntimeError("no memory")

    with running([run], cut="pointer") as at:
        opened(page, at)
        page.keyboard.type("Anna kauft ")
        wait_for(page, lambda: parts(page) == ["Anna kauft"])
        with monkeypatch.context() as patch:
            patch.setattr(panes, "advance", fail)
            page.keyboard.type("das ")
            expect(page.locator("#notice")).to_contain_text("the next word begins a new one")
        page.keyboard.type("Buch ")
        wait_for(page, lambda: parts(page)[-1] == "Buch")
        assert " ".join(parts(page)) == "Anna kauft das Buch"
        expect(page.locator(".translation p.failed")).to_have_count(1)
        assert ", failed: " in saved(page, "#transcript")


@pytest.mark.slow
def test_two_thousand_words_typed_and_pasted(page, at, run) -> None:  # noqa: F811
    """No word is lost, and what is written is what the stream writes by itself; prints times."""
    words = [word for number in range(80) for word in [*WORDS[number % 7 :], *WORDS[:3]]][:2000]
    opened(page, at)
    for start in range(0, 2000, 200):
        text = " ".join(words[start : start + 200]) + " "
        if start % 400:
            paste(page, text)
        else:
            page.keyboard.type(text)
    assert len(words) == 2000
    time.sleep(1)
    wait_for(page, lambda: page.locator("#waiting").is_hidden())
    page.click("#end")
    last = sentences(run, words)
    wait_for(page, lambda: [text for text in translation(page) if text][-1:] == last[1][-1:])
    found = [part.split("\n") for part in saved(page, "#transcript").strip().split("\n\n")]
    assert [source for source, _ in found] == last[0]
    assert [text.partition(": ")[2] for _, text in found] == last[1]
    nodes = page.evaluate("document.querySelectorAll('*').length")
    events = [json.loads(line) for line in saved(page, "#events").splitlines()][1:]
    passed = [after["seconds"] - one["seconds"] for one, after in pairwise(events)]
    print(f"\nmedian step, words 100-200: {1000 * median(passed[100:200]):.1f} ms, last 100: "
          f"{1000 * median(passed[-101:-1]):.1f} ms; {nodes} nodes")  # fmt: skip
    assert nodes < 5000
