"""Published logs and figures of streams, which lie beside the clone or not at all."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "streaming_golden"
needs_golden = pytest.mark.skipif(not FOLDER.is_dir(), reason="the published logs are not here")


def golden_text(name: str) -> str:
    with gzip.open(FOLDER / f"{name}.gz", "rt", encoding="utf-8") as file:
        return file.read()


def golden_lines(name: str) -> list[str]:
    return golden_text(name).split("\n")[:-1]
