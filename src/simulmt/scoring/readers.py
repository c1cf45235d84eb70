"""How the scores that other programs write are read: one table of the known forms."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from simulmt.errors import UserError


def _comet(text: str) -> Iterable[Any]:
    (rows,) = json.loads(text).values()  # by file of translations; we give one
    return [row["COMET"] for row in rows]


def _jsonl(key: str, text: str) -> Iterable[Any]:
    return [json.loads(line)[key] for line in text.splitlines()]


@dataclass(frozen=True)
class Reader:
    """The form of a program's scores.

    Attributes:
        items: Returns a number, or its text, for each sentence.
        negate: True if less is better; scores then change their sign.
    """

    items: Callable[[str], Iterable[Any]]
    negate: bool = False

    def read(self, text: str, sentences: int) -> list[float]:
        """Return the score of each sentence; more is better.

        Raises:
            UserError: the text has another form or another number of scores, or a score is not a
                finite number.
        """
        try:
            scores = [float(item) for item in self.items(text)]
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            why = f"{type(error).__name__}: {' '.join(str(error).split()):.100}"
            raise UserError(f"its scores have another form ({why}); see reader=") from None
        if len(scores) != sentences:
            raise UserError(f"it gave {len(scores):,} scores for {sentences:,} sentences")
        for place, score in enumerate(scores, start=1):
            if not math.isfinite(score):
                raise UserError(f"score {place:,} is {score}: it must be a finite number")
        return [-score for score in scores] if self.negate else scores


READERS: Mapping[str, Reader] = {
    "lines": Reader(str.splitlines),
    "comet": Reader(_comet),
    "metricx": Reader(partial(_jsonl, "prediction"), negate=True),
    "bleurt": Reader(str.splitlines),
}
"""By name: a number per line, the file of COMET's `--to_json`, and those of MetricX and BLEURT."""
