"""The log of a server: one line an event. It holds no text that users type, unless asked."""

import json
import sys
import time
from contextlib import suppress
from typing import TextIO


class Journal:
    """Writes lines such as `2026-01-31T12:00:00 sentence session=3 number=2 read=11`.

    Args:
        with_text: whether sentences are written down, too.
        output: where lines go; None for standard output.
    """

    def __init__(self, with_text: bool = False, output: TextIO | None = None) -> None:
        self.with_text = with_text
        self._output = sys.stdout if output is None else output

    def write(self, event: str, text: str | None = None, **fields: str | float) -> None:
        """Write a line.

        Args:
            event: what has happened.
            text: what a user has typed; left out unless asked for.
            fields: further values; strings are quoted, and control characters escaped.
        """
        if text is not None and self.with_text:
            fields["text"] = text
        now = time.strftime("%Y-%m-%dT%H:%M:%S")
        pairs = (f"{name}={_quoted(value)}" for name, value in fields.items())
        with suppress(OSError, ValueError):  # a full disk or a closed pipe ends no session
            print(now, event, *pairs, file=self._output, flush=True)


def _quoted(value: str | float) -> str:
    """Return a value as JSON; what is not printable is escaped, so that it cannot forge a line."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
