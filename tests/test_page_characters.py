"""The page with a model whose words are characters, in a real browser."""

from __future__ import annotations

import threading

import pytest

from simulmt.serve.sessions import Sessions
from test_page import (  # noqa: F401  (fixtures)
    CHROMIUM,
    browser,
    expect,
    lose_connections,
    opened,
    page,
    saved,
    source,
    wait_for,
)
from test_serve_characters import at, run  # noqa: F401  (fixtures)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; install it")


def lines(page) -> list[str]:  # noqa: F811
    return page.locator(".translation p").all_text_contents()


def test_a_character_goes_when_it_is_typed_and_nothing_separates_them(page, at):  # noqa: F811
    opened(page, at)
    text = "亍刑乗凛伛亄刈主"
    client = at.client()
    words = [word["text"] for step in client.sentence(text) for word in step["panes"][0]["words"]]
    client.close()
    expect(page.locator("#entry-help")).to_contain_text("Each character is read once it is typed.")
    expect(page.locator(".pane .unit")).to_have_text("characters")
    page.keyboard.insert_text(text[:3])
    wait_for(page, lambda: source(page) == [text[:3]])
    assert page.input_value("#word") == ""
    page.keyboard.insert_text(text[3:])
    page.keyboard.press("Enter")
    wait_for(page, lambda: lines(page) == ["".join(words)])
    assert source(page) == [text]
    assert page.locator(".translation span").all_text_contents() == words
    assert saved(page, "#transcript").splitlines()[0] == text


def test_what_is_typed_before_the_greeting_is_read_by_characters(page, at, monkeypatch):  # noqa: F811
    """And counted by characters: nothing is lost with a connection."""
    greeting, begin = threading.Event(), Sessions.begin
    monkeypatch.setattr(Sessions, "begin", lambda all: greeting.wait(20) and begin(all))
    page.goto(at.url)
    text = "亍刑乗凛伛亄刈主"
    page.keyboard.insert_text(text)
    page.keyboard.press("Enter")
    page.keyboard.insert_text(text[:3])
    greeting.set()
    wait_for(page, lambda: source(page) == [text, text[:3]])
    lose_connections(at)
    page.keyboard.insert_text(text[3:])
    wait_for(page, lambda: source(page) == [text, text])
    expect(page.locator("#waiting")).to_be_hidden()
