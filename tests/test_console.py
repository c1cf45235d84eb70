"""What long work prints."""

from __future__ import annotations

import io

from rich.console import Console

from simulmt.system import console


def test_work_without_a_terminal_prints_a_line_each_minute_apart_from_the_output(
    monkeypatch, capsys
):
    written = io.StringIO()
    on = Console(file=written, force_terminal=False)
    assert [*console.watch([1, 2, 3], "decoding", on)] == [1, 2, 3]
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(console, "EVERY", -1.0)
    assert [*console.watch([1, 2, 3], "decoding", on)] == [1, 2, 3]
    assert capsys.readouterr().err.splitlines() == [f"decoding: {n} of 3" for n in (1, 2, 3)]
    assert written.getvalue() == ""
