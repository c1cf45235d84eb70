"""The page that interprets, in a real browser."""

from __future__ import annotations

import functools
import http.server
import json
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from made_up import make_decoded_run, make_instances
from reported import QUICK
from serving import LIMITS, Running, running, words_of
from simulmt.analysis.report import report
from simulmt.decoding.policies.hold_n import HoldN
from simulmt.serve import panes, sessions
from simulmt.serve.messages import PaneStep, Setting, Written
from small_runs import soon

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect
expect.set_options(timeout=60_000)  # ms, for machines that are slow or busy
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; install it")
TEXT = "wir gehen .\nder Mann schläft .\n"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as at:
        browser = at.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    """A page that says nothing on its console and breaks no policy."""
    page = browser.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    yield page
    page.context.close()
    assert said == []


@pytest.fixture(scope="module")
def run(trained_once) -> Path:
    return trained_once("mechanism=multi_path")


@pytest.fixture(scope="module")
def at(run):
    with running([run]) as server:
        yield server


@pytest.fixture(scope="module")
def pair(run, trained_once):
    """Two models side by side."""
    with running([run, trained_once("mechanism=mma_il")], [Setting(), Setting(1)]) as server:
        yield server


def opened(page, at: Running):
    page.goto(at.url)
    expect(page.locator("#connection")).to_have_text("connected")
    return page


def source(page) -> list[str]:
    return [text.strip() for text in page.locator("#source p").all_text_contents()]


def translation(page, pane: int = 0) -> list[str]:
    lines = page.locator(".translation").nth(pane).locator("p").all()
    return [" ".join(line.locator("span").all_text_contents()) for line in lines]


def wait_for(page, holds) -> None:
    """Playwright's own loop has to run in the meantime."""
    for _ in range(1200):  # a minute, for machines that are slow or busy
        if holds():
            return
        page.wait_for_timeout(50)
    raise AssertionError("it has not happened")


def expected(at: Running, text: str, *settings: dict) -> list[str]:
    """What a program is told for the lines of a text, in the first pane."""
    client = at.client()
    if settings:
        client.say("panes", panes=[*settings])
        client.get()
    lines = []
    for line in text.split("\n")[:-1]:
        words: list[str] = []
        for step in client.sentence(line):
            new = step["panes"][0]
            words = words[: new["kept"]] + [word["text"] for word in new["words"]]
        lines.append(" ".join(words))
    client.close()
    return lines


def test_words_go_when_a_space_follows_and_the_translation_comes_word_by_word(page, at):
    opened(page, at)
    assert page.evaluate("document.activeElement.id") == "word"
    page.keyboard.type("wir ge")
    wait_for(page, lambda: source(page) == ["wir"])
    assert page.input_value("#word") == "ge"
    expect(page.locator(".behind")).to_have_text("1")
    page.keyboard.type("hen .")
    page.keyboard.press("Enter")
    page.keyboard.type("der Mann schläft .")
    page.keyboard.press("Enter")
    wait_for(page, lambda: translation(page) == expected(at, TEXT))
    assert source(page) == TEXT.split("\n")[:-1]
    expect(page.locator(".behind")).to_have_text("0")


def test_runs_of_a_report_are_sorted_by_their_numbers(page, tmp_path):
    for late, weight in enumerate((0.1, 0.05, 0.2, 0.15)):
        options = {"lambda": weight}
        make_decoded_run(tmp_path / f"{late}", "mma_il", options, make_instances(0.1, late))
    report({"runs": tmp_path, **QUICK, "to": tmp_path / "to"})
    page.goto(f"file://{tmp_path / 'to' / 'report.html'}")
    table = page.locator("table.sortable").first
    table.locator("button", has_text="run").first.click()
    names = [name.strip() for name in table.locator("tbody th").all_text_contents()]
    assert [name.split("lambda=")[1] for name in names] == ["0.05", "0.1", "0.15", "0.2"]


def test_an_empty_page_says_what_it_translates_and_what_to_do(page, at):
    opened(page, at)
    expect(page.locator("h1")).to_have_text("Live translation from German to English")
    expect(page.locator("#start")).to_contain_text("Type or paste a sentence above")
    expect(page.locator("#start")).to_contain_text("click an example")
    expect(page.locator("#transcript")).to_be_disabled()
    page.keyboard.type("wir ")
    expect(page.locator("#start")).to_be_hidden()


def test_an_example_is_translated_at_a_click_and_what_was_read_can_be_saved(page, at, run):
    opened(page, at)
    page.click("summary")
    page.fill("#rate", "1000")
    page.locator("#word").focus()
    page.keyboard.type("wir gehen ")
    examples = page.locator("#examples button")
    expect(examples).to_have_count(3)
    text = examples.nth(0).text_content()
    examples.nth(0).click()
    wanted = expected(at, f"wir gehen\n{text}\n")
    wait_for(page, lambda: translation(page) == wanted)
    expect(page.locator("#stop")).to_be_hidden()
    assert source(page) == ["wir gehen", text]
    name = f"{run.name}, own, k=3"
    paragraphs = zip(source(page), wanted, strict=True)
    transcript = "\n\n".join(f"{line}\n{name}: {found}" for line, found in paragraphs)
    assert saved(page, "#transcript") == f"{transcript}\n"
    events = [json.loads(line) for line in saved(page, "#events").splitlines()]
    assert [event["sentence"] for event in events if event["type"] == "panes"] == [1, 2]
    assert all(one["panes"][0]["dials"] == {"k": 3} for one in events if one["type"] == "panes")
    second = [one for one in events if one["type"] == "step" and one["sentence"] == 2]
    assert words_of(second) == wanted[1].split()
    assert second[-1]["ended"] == "end"


def saved(page, button: str) -> str:
    with page.expect_download() as download:
        page.click(button)
    return Path(download.value.path()).read_text("utf-8")


def test_a_translation_that_is_longer_is_no_words_behind(page, at, monkeypatch):
    one = PaneStep(0, (Written("a", 1),) * 3)
    monkeypatch.setattr(panes.SentencePane, "follow", lambda *_: one)
    opened(page, at)
    page.keyboard.type("wir ")
    wait_for(page, lambda: translation(page) == ["a a a"])
    expect(page.locator(".behind")).to_have_text("0")


def test_text_is_text_whatever_it_looks_like(page, at):
    opened(page, at)
    page.keyboard.type("<img/src=x/onerror=alert(1)> <b>fett</b> ")
    page.keyboard.press("Enter")
    wait_for(page, lambda: source(page) == ["<img/src=x/onerror=alert(1)> <b>fett</b>"])
    assert page.locator("main img, main b").count() == 0


def test_more_is_pasted_than_may_wait(page, run):
    """Longer words than a message takes, too; none is lost, unless the user drops it."""
    reading = Setting(0, "own", {}, {"k": 1_000_000})
    with running([run], [reading], limits=replace(LIMITS, waiting=4)) as at:
        opened(page, at)
        words = " ".join(["wir"] * 8 + ["x" * 300])
        page.fill("#word", f"{words} ")
        pieces = [*["wir"] * 8, *["x" * 100] * 3]
        expect(page.locator("#notice")).to_contain_text("A word of 300 characters is read in")
        wait_for(page, lambda: source(page)[:1] == [" ".join(pieces)])
        page.fill("#word", " ".join(["wir"] * 500) + " ")
        page.click("#drop")
        expect(page.locator("#waiting")).to_be_hidden()
        assert sum(len(line.split()) for line in source(page)) < 400
        page.goto("about:blank")  # the server is still reading, and ends without the page


def test_a_long_run_without_spaces_is_cut_at_once(page, at):
    opened(page, at)
    page.fill("#word", "x" * 300_000 + " ", timeout=20_000)
    assert page.input_value("#word") == ""
    page.goto("about:blank")  # the server is still reading, and ends without the page


def test_a_text_is_played_at_its_rate_and_stopped(page, at):
    opened(page, at)
    page.click("summary")
    page.fill("#text", TEXT)
    page.fill("#rate", "1000")
    page.click("#play")
    expect(page.locator("#stop")).to_be_enabled()
    wait_for(page, lambda: translation(page) == expected(at, TEXT))
    expect(page.locator("#play")).to_be_enabled()
    page.fill("#rate", "10")
    page.click("#play")
    wait_for(page, lambda: len(source(page)) == 3)
    page.click("#stop")
    expect(page.locator("#play")).to_be_enabled()
    assert source(page)[2] == "wir"


def test_a_text_is_followed_to_its_end_unless_scrolled_back(page, at):
    page.set_viewport_size({"width": 300, "height": 600})
    opened(page, at)
    page.fill("#word", "wir " * 40)
    box = page.locator("#source")
    wait_for(page, lambda: source(page) == ["wir " * 39 + "wir"])
    top = "node => { node.scrollTop = 0; return new Promise(requestAnimationFrame); }"
    assert box.evaluate("node => node.scrollTop") > 0
    box.evaluate(top)
    page.type("#word", "gehen ")
    wait_for(page, lambda: source(page)[0].endswith("gehen"))
    assert box.evaluate("node => node.scrollTop") == 0


def test_a_played_text_ends_the_open_sentence(page, at):
    opened(page, at)
    page.keyboard.type("wir gehen")
    page.click("summary")
    page.fill("#text", "der Mann")
    page.fill("#rate", "1000")
    page.click("#play")
    wait_for(page, lambda: source(page) == ["wir gehen", "der Mann"])


def test_words_that_are_typed_end_the_playing(page, at):
    opened(page, at)
    page.click("summary")
    page.fill("#text", "der " * 20)
    page.fill("#rate", "1")
    page.click("#play")
    wait_for(page, lambda: source(page) == ["der"])
    page.type("#word", "Mann ")
    expect(page.locator("#play")).to_be_enabled()
    wait_for(page, lambda: source(page) == ["der", "Mann"])


def test_a_played_line_ends_after_spaces_and_a_paste_replaces_what_is_selected(page, at):
    opened(page, at)
    page.click("summary")
    page.fill("#text", TEXT.replace("\n", " \t\r\n"))
    page.fill("#rate", "1000")
    page.click("#play")
    wait_for(page, lambda: translation(page) == expected(at, TEXT))
    opened(page, at)
    page.fill("#word", "Hal")
    page.evaluate("""() => {
      const field = document.getElementById("word"), data = new DataTransfer();
      field.setSelectionRange(0, 3);
      data.setData("text", "wir gehen ");
      field.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, cancelable: true}));
    }""")
    wait_for(page, lambda: source(page) == ["wir gehen"])


def test_two_models_read_the_same_words_in_step(page, pair):
    opened(page, pair)
    page.keyboard.type(TEXT)
    wait_for(page, lambda: len(translation(page, 1)) == 2 and all(translation(page, 1)))
    for pane, model in enumerate([0, 1]):
        alone = {"model": model, "policy": "own", "options": {}, "dials": {}}
        wanted = expected(pair, TEXT, alone)
        wait_for(page, lambda pane=pane, wanted=wanted: translation(page, pane) == wanted)
    columns = [page.locator(".columns").nth(pane).locator("text").count() for pane in (0, 1)]
    assert min(columns) >= 4


def test_policies_that_do_not_suit_come_last_with_the_reason(page, pair):
    opened(page, pair)
    pane = page.locator(".pane").nth(1)
    suits = pane.locator("select[name=policy] > option")
    assert suits.all_text_contents() == ["own", "newest_token", "retranslation"]
    group = pane.locator("optgroup")
    assert group.get_attribute("label") == "unsuitable here"
    assert "local_agreement" in group.locator("option:enabled").all_text_contents()
    assert "align_att" in group.locator("option:disabled").all_text_contents()
    pane.locator("input[name='dials.threshold']").fill("0.6")  # which newest_token rejects
    expect(page.locator(".pane.changing")).to_have_count(0)
    pane.locator("select[name=policy]").select_option("newest_token")
    expect(page.locator(".pane.changing")).to_have_count(0)
    assert pane.locator("select[name=policy]").input_value() == "newest_token"
    assert page.locator("#notice").is_hidden()
    labels = pane.locator(".options label").all_text_contents()
    assert [label.split()[0] for label in labels] == ["threshold"]
    pane.locator("select[name=policy]").select_option("local_agreement")
    expect(pane.locator(".why")).to_contain_text("Unsuitable here: mechanism=mma_il decides")


def test_dials_and_policies_hold_from_the_next_sentence_on(page, at):
    opened(page, at)
    page.keyboard.type("der Mann ")
    wait_for(page, lambda: source(page) == ["der Mann"])
    page.fill("input[name='dials.k']", "9")
    page.keyboard.press("Tab")
    expect(page.locator(".pane.changing")).to_have_count(1)
    page.type("#word", "schläft .\n")
    expect(page.locator(".pane.changing")).to_have_count(0)
    page.type("#word", "der Mann schläft ")
    wait_for(page, lambda: source(page)[-1] == "der Mann schläft")
    assert page.locator(".rows text").count() == 0
    page.type("#word", ".\n")
    page.select_option("select[name=policy]", "retranslation")
    before = len(source(page))
    page.type("#word", "der Mann schläft ")
    wait_for(page, lambda: source(page)[before:] == ["der Mann schläft"])
    wait_for(page, lambda: page.locator(".translation span.open").count() > 0)
    page.type("#word", ".\n")
    wait_for(page, lambda: page.locator(".translation span.open").count() == 0)
    final = {"model": 0, "policy": "retranslation", "options": {}, "dials": {"k": 9}}
    wait_for(page, lambda: translation(page)[-1:] == expected(at, "der Mann schläft .\n", final))
    wait_for(page, lambda: page.locator(".translation del").count() == 0)


def test_a_choice_does_not_wait_for_the_end_of_a_pasted_text(page, run):
    with running([run], limits=replace(LIMITS, waiting=4)) as at:
        opened(page, at)
        page.evaluate(
            """text => {
          const data = new DataTransfer(), field = document.getElementById("word");
          data.setData("text", text);
          field.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, cancelable: true}));
        }""",
            "wir gehen .\n" * 300,
        )
        page.fill("input[name='dials.k']", "9")
        page.keyboard.press("Tab")
        expect(page.locator(".pane.changing")).to_have_count(1)
        expect(page.locator(".pane.changing")).to_have_count(0)
        assert page.locator("#waiting").is_visible()
        page.click("#drop")


def test_a_choice_that_is_refused_leaves_the_panes_as_they_were(page, run):
    """The page offers none; a model with fewer layers might."""
    with running([run]) as at:
        opened(page, at)
        page.select_option("select[name=policy]", "align_att")
        expect(page.locator(".pane.changing")).to_have_count(0)
        page.fill("input[name='options.layer']", "7")
        page.keyboard.press("Tab")
        expect(page.locator("#notice")).to_contain_text("policy.layer=7")
        expect(page.locator(".pane.changing")).to_have_count(0)
        assert page.input_value("input[name='options.layer']") == ""


def test_after_a_lost_connection_the_open_sentence_is_typed_again(page, at):
    """What was said in the meantime arrives, too, and nothing twice; the panes are as they were."""
    opened(page, at)
    page.fill("input[name='dials.k']", "9")
    page.keyboard.press("Tab")
    expect(page.locator(".pane.changing")).to_have_count(0)
    page.type("#word", "wir gehen .\nder Mann ")
    wait_for(page, lambda: source(page)[-1:] == ["der Mann"])
    lose_connections(at)
    page.type("#word", "schläft .\nwir gehen .\n")
    held = {"model": 0, "policy": "own", "options": {}, "dials": {"k": 9}}
    wanted = expected(at, "wir gehen .\nder Mann schläft .\nwir gehen .\n", held)
    wait_for(page, lambda: translation(page) == wanted)
    assert source(page) == ["wir gehen .", "der Mann schläft .", "wir gehen ."]
    expect(page.locator("#notice")).to_contain_text("connection was lost")
    assert page.input_value("input[name='dials.k']") == "9"
    expect(page.locator("#waiting")).to_be_hidden()


def test_after_a_restart_of_the_server_the_open_sentence_is_typed_again(browser, run):
    page = browser.new_page()  # its console tells of the connections that fail
    with running([run]) as before:
        opened(page, before)
        page.type("#word", "der Mann ")
        wait_for(page, lambda: source(page) == ["der Mann"])
    expect(page.locator("#notice")).to_contain_text("The server does not answer")
    page.type("#word", "schläft ")
    expect(page.locator("#waiting")).to_contain_text("words waiting: 1")
    with running([run], port=urlsplit(before.url).port) as after:
        wait_for(page, lambda: source(page) == ["der Mann schläft"])
        expect(page.locator("#notice")).to_contain_text("open sentence was typed again")
        page.type("#word", ".\n")
        wait_for(page, lambda: translation(page) == expected(after, "der Mann schläft .\n"))
        page.context.close()


def test_what_is_dropped_without_a_connection_is_not_read(browser, run, monkeypatch):
    """What was read before stays, as a sentence that has ended."""
    page = browser.new_page()  # its console tells of the connections that fail
    with running([run]) as before, monkeypatch.context() as patch:
        opened(page, before)
        page.type("#word", "der Mann ")
        wait_for(page, lambda: source(page) == ["der Mann"])
        lost = []
        patch.setattr(sessions.Session, "receive", lambda _, text: lost.append(text))
        page.type("#word", "schläft .\nwir ")
        wait_for(page, lambda: len(lost) == 4)  # three words and an end, before they can be read
    expect(page.locator("#waiting")).to_contain_text("words waiting: 3")
    page.click("#drop")
    expect(page.locator("#waiting")).to_be_hidden()
    with running([run], port=urlsplit(before.url).port) as after:
        page.type("#word", "wir gehen .\n")
        wait_for(page, lambda: translation(page) == expected(after, "der Mann\nwir gehen .\n"))
        assert source(page) == ["der Mann", "wir gehen ."]
        page.context.close()


def test_a_connection_that_is_silent_is_given_up(page, at, monkeypatch):
    page.clock.install()
    opened(page, at)
    lost = []
    with monkeypatch.context() as patch:
        patch.setattr(sessions.Session, "receive", lambda _, text: lost.append(text))
        page.type("#word", "wir gehen .\n")
        wait_for(page, lambda: len(lost) == 4)
    page.clock.fast_forward(70_000)
    wait_for(page, lambda: translation(page) == expected(at, "wir gehen .\n"))
    assert source(page) == ["wir gehen ."]


def test_after_the_end_of_a_session_the_open_sentence_is_typed_again(page, at):
    """As soon as a word is typed: the user may have left."""
    opened(page, at)
    page.type("#word", "der Mann ")
    wait_for(page, lambda: source(page) == ["der Mann"])
    session = max(at.sessions.open, key=lambda session: session.number)
    at.loop.call_soon_threadsafe(session.end, "a reason")
    expect(page.locator("#connection")).to_have_text("ended (a reason); type to begin again")
    page.type("#word", "schläft .\n")
    wait_for(page, lambda: translation(page) == expected(at, "der Mann schläft .\n"))
    expect(page.locator("#notice")).to_contain_text("session ended (a reason); another one has")


def test_a_session_that_ends_while_words_wait_is_followed_by_another(page, at, monkeypatch):
    gate, read = threading.Event(), sessions.read_words
    monkeypatch.setattr(sessions, "read_words", lambda turns: gate.wait(20) and read(turns))
    opened(page, at)
    session = max(at.sessions.open, key=lambda session: session.number)
    page.type("#word", "wir gehen .\n")
    wait_for(page, lambda: session.waiting.qsize() == 3)
    at.loop.call_soon_threadsafe(session.end, "a reason")
    expect(page.locator("#notice")).to_contain_text("typed again")
    gate.set()
    wait_for(page, lambda: translation(page) == expected(at, "wir gehen .\n"))


def test_after_a_restart_with_other_models_panes_and_translations_stay(browser, pair, run):
    page = browser.new_page()  # its console tells of the connections that fail
    models = [one.offer.name for one in pair.sessions.models]
    assert models[0] == run.name
    runs = [run.parent / name for name in models]
    with running(runs, [Setting(), Setting(1)]) as before:
        opened(page, before)
        page.type("#word", TEXT)
        wait_for(page, lambda: len(translation(page, 1)) == 2 and all(translation(page, 1)))
        earlier = [translation(page, pane) for pane in (0, 1)]
    expect(page.locator("#notice")).to_contain_text("The server does not answer")
    with running([run], port=urlsplit(before.url).port) as after:
        expect(page.locator("#notice")).to_contain_text("models or policies have changed")
        page.type("#word", "wir gehen .\n")
        (again,) = expected(after, "wir gehen .\n")
        for pane in (0, 1):
            wanted = [*earlier[pane], again]
            wait_for(page, lambda pane=pane, wanted=wanted: translation(page, pane) == wanted)
        page.context.close()


def test_a_policy_that_fails_is_named_and_the_other_pane_goes_on(page, run, monkeypatch):
    def fail(*_):
        raise ValueError("a mistake")

    with running([run], [Setting(), Setting(0, "hold_n", {"n": 2})]) as at:
        opened(page, at)
        with monkeypatch.context() as patch:
            patch.setattr(HoldN, "commit", fail)
            page.type("#word", "der Mann schläft .\n")
            wait_for(page, lambda: translation(page)[:1] == expected(at, "der Mann schläft .\n"))
            expect(page.locator("#notice")).to_contain_text("policy hold_n failed")
        page.type("#word", "wir gehen .\n")
        wait_for(page, lambda: translation(page)[1:] == expected(at, "wir gehen .\n"))
        assert source(page) == ["der Mann schläft .", "wir gehen ."]
        assert len(translation(page, 1)) == 2
        lines = saved(page, "#transcript").splitlines()
        assert ["hold_n, n=2, k=3, failed" in line for line in lines] == [
            False, False, True, False, False, False, False,
        ]  # fmt: skip
        page.goto("about:blank")


def test_a_value_that_makes_no_sense_gives_way_to_the_one_that_holds(page, pair):
    opened(page, pair)
    k = page.locator("input[name='dials.k']")
    for value, told in [("0", "k=0"), ("", "k=")]:
        k.fill(value)
        page.keyboard.press("Tab")
        expect(page.locator("#notice")).to_contain_text(f"{told}: ")
        expect(page.locator("#notice")).to_contain_text("It stays at 3.")
        assert k.input_value() == "3"
    slider = page.locator("input[name='dials.threshold']")
    assert slider.locator("+ output").text_content() == "0.5"
    slider.focus()
    values = [slider.press(key) or slider.input_value() for key in ("ArrowRight", "Home", "End")]
    assert values == ["0.51", "0.01", "0.99"]


@contextmanager
def elsewhere(folder: Path) -> Iterator[str]:
    """A server of empty pages, of another origin."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


def lose_connections(at: Running) -> None:
    """What a network does; the page finds out by itself."""
    ended = [session.number for session in at.sessions.open]
    for connection in [*at.made.server_state.connections]:
        at.loop.call_soon_threadsafe(connection.transport.abort)
    assert ended
    assert soon(lambda: not any(session.number in ended for session in at.sessions.open))


def test_a_page_of_another_origin_is_refused(browser, at, run, tmp_path):
    """It can neither open the socket nor embed, read or run what the server gives out."""
    with elsewhere(tmp_path) as url:
        page = browser.new_page()
        page.goto(url)
        outcome = page.evaluate(
            """async ([socket, file]) => {
                const opened = await new Promise(done => {
                    const connection = new WebSocket(socket);
                    connection.onopen = () => done("open");
                    connection.onerror = () => done("refused");
                });
                const read = await fetch(file).then(() => "read", () => "refused");
                const run = await import(file).then(() => "run", () => "refused");
                return [opened, read, run];
            }""",
            [at.socket, f"{at.url}path.js"],
        )
        assert outcome == ["refused"] * 3
        page.set_content(f"<iframe src='{at.url}'></iframe>")
        page.wait_for_timeout(300)
        assert page.frames[1].locator("#word").count() == 0
        page.context.close()
        with running([run], frames=(url.rstrip("/"),)) as embedded:
            page = browser.new_page()
            page.goto(url)
            page.set_content(f"<iframe src='{embedded.url}'></iframe>")
            expect(page.frame_locator("iframe").locator("#connection")).to_have_text("connected")
            page.context.close()
    assert f"origin='{url.rstrip('/')}'" in at.log.getvalue()


def test_the_keyboard_alone_is_enough(page, at):
    """Every control is reached in the order of the page, and shows that it has the focus."""
    opened(page, at)
    page.keyboard.type(TEXT.split("\n", maxsplit=1)[0])
    page.keyboard.press("Enter")
    wait_for(page, lambda: translation(page) != [""])
    reached = []
    for _ in range(17):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                """() => {
                    const node = document.activeElement;
                    const seen = getComputedStyle(node).outlineStyle !== "none";
                    return [node.id || node.name || node.className || node.tagName, seen];
                }"""
            )
        )
    names = [name for name, _ in reached]
    wanted = ["end", "SUMMARY", "policy", "dials.k"]
    wanted += ["transcript translation", "drawing path", "add"]
    assert [name for name in names if name in wanted][: len(wanted)] == wanted
    assert all(seen for name, seen in reached if name in wanted)


def test_the_page_that_plays_back_obeys_its_policy_and_draws_the_same_path(page, run, tmp_path):
    """One file without a server, opened from the disk."""
    from simulmt.analysis.figures.heads import write_picture
    from simulmt.analysis.figures.trace import trace_sentence
    from simulmt.live.translator import Translator

    translator = Translator.load(run, "cpu")
    model, subwords, device = translator.model, translator.subwords, translator.device
    texts = ["wir gehen .", "<b>der Mann</b> </script> schläft ."]
    traces = [trace_sentence(model, subwords, device, text).in_words() for text in texts]
    write_picture(traces, tmp_path / "heads.html")
    page.goto((tmp_path / "heads.html").as_uri())
    rows, columns = page.locator(".rows text"), page.locator(".columns text")
    expect(rows).to_have_count(len(traces[0].target))
    page.select_option("#sentence", index=1)
    expect(columns).to_have_count(len(traces[1].source))
    stairs = page.locator(".cells .stair").count()
    assert stairs == len(traces[1].target) + 1  # and that of the row to come
    page.keyboard.press("Tab")
    for key, step in [("Home", 0), ("ArrowRight", 1), ("End", len([*traces[1].steps()]) - 1)]:
        page.locator("#grid").press(key)
        expect(page.locator("#status")).to_contain_text(f"step {step}/")
    page.locator("#grid").press("Home")
    page.select_option("#speed", "4")
    page.click("#play")
    expect(page.locator("#status")).to_contain_text(re.compile(r"step ([2-9]|\d\d)/"))
    assert page.evaluate("document.querySelectorAll('b').length") == 0
