"""Decoded sentences as a picture or a page, by the suffix of the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from simulmt.analysis.page import write_page
from simulmt.analysis.trace_picture import draw_traces
from simulmt.decoding.trace import Trace
from simulmt.errors import UserError

KINDS: dict[str, Callable[[Sequence[Trace], Path, str], None]] = {
    ".png": draw_traces,
    ".svg": draw_traces,
    ".pdf": draw_traces,
    ".html": write_page,
}
"""The function that writes each kind of picture, by the suffix of its path."""
HEADS = ("union", "each")
"""All heads in one panel, or a panel for each head."""


def write_picture(traces: Sequence[Trace], path: str | Path, heads: str = "union") -> None:
    """Write a picture or a page of where every head looked and stopped.

    Args:
        traces: The sentences, as `simulmt.decoding.trace.trace_sentence` gives them.
        path: The file; .png, .svg and .pdf are pictures, .html is a page that plays the sentences
            back. The same sentences give the same bytes.
        heads: `union` or `each`; the reader of a page can change this.

    Raises:
        UserError: no sentence, more than fits on a picture, another suffix, another word for
            heads, or a path that cannot be written.
    """
    path = Path(path)
    check_picture(path, heads)
    if not traces:
        raise UserError(f"{path}: there is no sentence to draw; give at least one")
    try:
        KINDS[path.suffix.lower()](traces, path, heads)
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror}); name a file in a folder that exists"
        ) from error


def check_picture(path: str | Path, heads: str = "union") -> None:
    """Refuse the arguments that `write_picture` would refuse, before any work.

    Raises:
        UserError: another suffix, another word for heads, or no such folder.
    """
    if Path(path).suffix.lower() not in KINDS:
        raise UserError(f"picture is {str(path)!r}; its name must end in one of {', '.join(KINDS)}")
    if heads not in HEADS:
        raise UserError(f"heads is {heads!r}; choose {' or '.join(HEADS)}")
    if not Path(path).parent.is_dir():
        raise UserError(
            f"{path} cannot be written (there is no folder {Path(path).parent}); name a file in a "
            "folder that exists"
        )
