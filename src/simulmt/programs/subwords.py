"""The subwords of a run, from `data.subwords`: a given model, or one trained on the text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from simulmt.data.subwords import Subwords
from simulmt.errors import UserError
from simulmt.options import asked_of, check, construct
from simulmt.saved.checkpoint import load_subwords


def subwords_given(options: Mapping[str, Any]) -> Subwords | None:
    """Return the subwords that `data.subwords.model` names; None if it is null.

    Raises:
        UserError: an option is unknown or of the wrong type, or there is no usable model.
    """
    asked = asked_of(Subwords.train, {"sentences": None, "cache": None}) | {"model": str | None}
    check(options, asked, "data.subwords", optional=asked)
    place = options.get("model")
    if place is None:
        return None
    if not Path(place).exists():
        raise UserError(
            f"data.subwords.model={place}: there is no such file or folder; give a SentencePiece "
            ".model file, a run or a checkpoint, or null to train the subwords on the text"
        )
    return load_subwords(Path(place))


def train_subwords(options: Mapping[str, Any], text: Iterable[str], cache: Path) -> Subwords:
    """Return subwords trained on the text, or the same from the cache."""
    options = {name: value for name, value in options.items() if name != "model"}
    return construct(Subwords.train, options, "data.subwords", {"sentences": text, "cache": cache})
