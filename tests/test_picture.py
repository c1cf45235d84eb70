"""Pictures and pages of traces: every kind of sentence, the same bytes again, safe text."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest
from matplotlib.image import imread

from simulmt.analysis.figures import panels
from simulmt.analysis.figures.heads import HEADS, KINDS, MOST, write_picture
from simulmt.analysis.figures.trace import Trace
from simulmt.errors import UserError
from simulmt.system.console import warn


def made(source, target, layers=1, heads=1, stops=True, line=1) -> Trace:
    """A trace along the diagonal, each head one subword behind the one before it."""
    S, T, count = len(source) + 1, len(target), layers * heads
    generator = np.random.default_rng(0)
    delays = [min(2 + i * S // max(T, 1), S) if stops else S for i in range(T)]
    weights = generator.random((T, layers, heads, S)) ** 8
    for i, delay in enumerate(delays):
        weights[i, ..., delay:] = 0
    return Trace(
        line=line,
        source=(*source, "</s>"),
        target=tuple(target),
        source_words=tuple(range(1, S + 1)),
        target_words=tuple(range(1, T + 1)),
        delays=tuple(delays),
        end=S,
        positions=tuple(tuple(max(d - h, 0) for h in range(count)) for d in delays) * stops,
        weights=weights / weights.sum(-1, keepdims=True),
    )


EVIL = '</script><b onload="x">&amp;'
TRACES = {
    "usual": made(["▁der", "▁Bau", "er"], ["▁the", "▁far", "mer"], layers=2, heads=2),
    "one head": made(["▁Hallo"], ["▁Hello"]),
    "soft": made(["▁Hallo", "▁Welt"], ["▁hello", "▁world"], heads=4, stops=False),
    "markup": made(["▁$x$", EVIL, "▁{{data}}"], ["▁$", "<!--", "\\", "_^"]),
    "other scripts": made(["▁你好", "世界", "▁مرحبا", "\N{GRINNING FACE}"], ["▁नमस्ते", "▁W" * 60]),
    "no translation": made(["▁Hallo", "▁Welt"], []),
    "nothing": made([], []),
    "invented": made([], ["▁well"]),
    "long": made([f"▁Quelle{i}" for i in range(199)], [f"▁ziel{i}" for i in range(180)]),
}
named = pytest.mark.parametrize("name", TRACES)


def data_of(page: str):
    """What the page's script reads, as a browser finds it."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script', page)
    return json.loads(found)


def test_letters_are_from_the_first_font_that_has_them(tmp_path, monkeypatch, capsys):
    """The second one has a sign that the first one lacks."""
    monkeypatch.setattr(panels, "_FONTS", ["DejaVu Sans", "DejaVu Sans Mono"])
    write_picture([made(["▁\N{APL FUNCTIONAL SYMBOL I-BEAM}"], ["▁hello"])], tmp_path / "a.png")
    assert capsys.readouterr().err == ""


def test_letters_that_no_font_has_are_named_once(tmp_path, monkeypatch, capsys):
    warn.cache_clear()  # whatever came before
    monkeypatch.setattr(panels, "_FONTS", ["DejaVu Sans"])
    for name in "ab":
        write_picture([made(["▁你好"], ["▁hello"])], tmp_path / f"{name}.png")
    assert capsys.readouterr().err.count("no font here has all letters") == 1


@pytest.mark.parametrize(
    ("name", "heads"), [*((name, "union") for name in TRACES), ("usual", "each"), ("soft", "each")]
)
def test_every_sentence_has_a_picture(name, heads, tmp_path):
    write_picture([TRACES[name]], tmp_path / "a.png", heads)
    height, width, _ = imread(tmp_path / "a.png").shape
    assert 80 < height < 3600
    assert 80 < width < 3600


@named
def test_every_sentence_has_a_page_with_all_that_was_traced(name, tmp_path):
    trace = TRACES[name]
    write_picture([trace, TRACES["usual"]], tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>") == 2
    assert "<b" not in page.replace("<body", "").replace("<button", "")
    own = re.sub(r"www\.w3\.org/2000/svg|'sha256-[\w+/=]+'", "", page)  # a digest may have "//"
    assert not re.search(r"(https?:)?//\w|@import|url\((?!#)", own)
    first, second = data_of(page)["sentences"]
    assert tuple(first["source"]) == trace.source
    assert tuple(first["target"]) == trace.target
    assert [tuple(step) for step in first["steps"]] == [*trace.steps()]
    T, layers, heads, S = trace.weights.shape
    decoded = np.frombuffer(base64.b64decode(first["weights"]), np.uint8)
    shown = decoded.reshape(layers, heads, T, S).transpose(2, 0, 1, 3) / 255
    np.testing.assert_allclose(shown, trace.weights, atol=0.5 / 255 + 1e-12)  # rounded to bytes
    assert len(first["names"]) == layers * heads
    assert second["names"][2] == "layer 2, head 1"


@pytest.mark.parametrize("suffix", KINDS)
def test_the_same_sentences_give_the_same_bytes(suffix, tmp_path):
    chosen = [TRACES[name] for name in ("usual", "markup", "no translation", "soft")]
    files = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for file in files:
        write_picture(chosen, file, HEADS[-1])
    assert files[0].read_bytes() == files[1].read_bytes()


@named
def test_every_sentence_is_drawn_in_words(name, tmp_path):
    words = TRACES[name].in_words()
    for suffix in (".png", ".html"):
        write_picture([words, TRACES["usual"]], tmp_path / f"a{suffix}")
    first, second = data_of((tmp_path / "a.html").read_text(encoding="utf-8"))["sentences"]
    assert (tuple(first["source"]), first["gap"], second["gap"]) == (words.source, " ", "")


def test_a_picture_shows_the_beginning_of_a_long_sentence_and_says_so(drawn, tmp_path):
    for trace, title in [
        (TRACES["long"], "one head … and 260 more subwords"),
        (TRACES["long"].in_words(), "one head … and 260 more words"),
    ]:
        write_picture([trace], tmp_path / "a.svg")
        (axes,) = drawn.pop().axes
        assert axes.get_title(loc="left") == title
        assert (axes.get_xlim(), axes.get_ylim()) == ((0, MOST), (MOST, 0))
        assert len(axes.get_xticks()) == len(axes.get_yticks()) == MOST


def test_what_else_cannot_be_drawn_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"\.png, \.svg, \.pdf, \.html"):
        write_picture([TRACES["usual"]], tmp_path / "a.gif")
    with pytest.raises(UserError, match="heads is 'some'; choose one of union, each"):
        write_picture([TRACES["usual"]], tmp_path / "a.png", "some")
    long = made(["▁a"] * 199, ["▁b"] * 200, layers=2, heads=4)
    with pytest.raises(UserError, match=r"inches; at most .* take fewer sentences"):
        write_picture([long] * 9, tmp_path / "a.png", "each")
