"""Messages of the page as plain values."""

import json
import sys
from typing import Any

_DEEPEST, _MOST, _LARGEST = 20, 100_000, sys.float_info.max


def parse_json(text: bytes) -> Any:
    """Return what a JSON text in UTF-8 holds.

    Raises:
        ValueError: it is no such text, or nested too deeply.
    """
    try:
        return json.loads(text.decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_plain(content: object) -> None:
    """Refuse what is no small tree of plain values: it may be a cycle, or grow when it is copied.

    Raises:
        ValueError: a value of another type, a number that is not finite, a text that is no Unicode,
            or too many values or levels.
    """
    waiting, seen = [(content, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        seen += 1
        if depth > _DEEPEST or seen > _MOST:
            raise ValueError(f"there are more than {_DEEPEST} levels or {_MOST:,} values")
        if isinstance(value, dict) and all(isinstance(name, str) for name in value):
            waiting += [(part, depth + 1) for item in value.items() for part in item]
        elif isinstance(value, list):
            waiting += [(item, depth + 1) for item in value]
        elif isinstance(value, str):
            value.encode("utf-8")
        elif value is not None and not (isinstance(value, int | float) and abs(value) <= _LARGEST):
            raise ValueError(f"a value of type {type(value).__name__} is not plain, or not finite")
