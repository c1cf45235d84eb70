"""The notebook of the documentation: its code runs, and what it says of itself holds."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "notebook.ipynb"
MANY, FEW = "PAIRS = 20_000", "PAIRS = 600"
LARGEST = 300_000  # bytes, pictures included

CHECKS = """
import sys

assert not {"hydra", "omegaconf", "pytorch_lightning"} & {*sys.modules}
assert torch.allclose(alpha.sum(-1), torch.ones(()))  # mass preservation
assert translator.stream.written.delays == [*instance.subword_delays]
formula = average_lagging(torch.tensor([instance.delays]), source_length, target_length)
assert abs(float(score([instance])["paper", "word"]["AL"]) - formula.item()) < 1e-5
"""


def read() -> NotebookNode:
    notebook: NotebookNode = nbformat.read(PAGE, as_version=4)
    nbformat.validate(notebook)
    return notebook


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def complaints(notebook: NotebookNode) -> list[str]:
    """Errors, and what was written to standard error, where warnings go."""
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    return [
        str(output)
        for output in outputs
        if output.output_type == "error" or output.get("name") == "stderr"
    ]


@pytest.mark.slow
def test_it_runs_from_top_to_bottom_without_a_warning(tmp_path, monkeypatch):
    """With few sentences, in an empty folder, in which it leaves nothing."""
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (folder := tmp_path / "folder").mkdir()
    notebook = read()
    (parameters,) = (c for c in notebook.cells if "parameters" in c.metadata.get("tags", ()))
    assert parameters.source.count(MANY) == 1
    parameters.source = parameters.source.replace(MANY, FEW)
    notebook.cells.append(nbformat.v4.new_code_cell(CHECKS))
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    assert complaints(notebook) == []
    assert not any(folder.iterdir())


def test_it_is_committed_with_the_outputs_of_one_execution():
    notebook = read()
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    assert complaints(notebook) == []
    assert PAGE.stat().st_size < LARGEST
    pictures = [o for cell in cells for o in cell.outputs if "image/png" in o.get("data", {})]
    assert len(pictures) >= 3
