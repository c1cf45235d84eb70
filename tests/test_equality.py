"""The program that compares batches and streams on a thousand sentences, on a few."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from small_runs import ROOT


def test_it_decodes_and_writes_its_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "experiments/streaming"))
        equality, cells = (importlib.import_module(name) for name in ("equality", "cells"))
    sources, subwords = equality.read_sentences(2)
    asked = ["--mechanisms", "wait_k,hmt,mma_il", "--models", "transformer"]
    options = equality.parse([*asked, "--output", str(tmp_path)])
    chosen = equality.make_cells(options)
    assert [cell.mechanism for cell in chosen] == ["wait_k", "hmt", "mma_il"]
    results = {cell: cells.compare(cell, [sources[0], *sources[-2:]], subwords) for cell in chosen}
    equality.write_files(results, tmp_path)
    assert "| wait_k | 3: 0 |" in (tmp_path / "equality.md").read_text()
    for counts in results.values():
        assert (counts.sentences, counts.mismatches) == (3, 0)
