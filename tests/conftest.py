"""One thread each, since the tensors are small and the tests may share the machine; tiny runs.

Tests that only need some trained model share one run for each choice of options, among all workers.
Those that write into a run's folder copy it first.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from filelock import FileLock

import shapes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

torch.set_num_threads(1)
if os.environ.get("CHECK_SHAPES"):
    shapes.install()


def pytest_collection_finish() -> None:
    """Half a million objects of imported packages are not searched for garbage any more."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared(tmp_path_factory) -> Path:
    """One folder for all workers of this call of pytest."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def trained_once(shared) -> Callable[..., Path]:
    """Returns the finished run of these options, which nobody may change."""

    def run_of(*overrides: str) -> Path:
        from simulmt.analysis import summary
        from simulmt.analysis.figures import path
        from small_runs import SMALL, configuration, train

        folder = shared / f"run-{sha256(repr(overrides).encode()).hexdigest()[:12]}"
        with FileLock(f"{folder}.lock"):
            if not (folder / "test_scores.json").exists():
                chosen = [*SMALL, *overrides, f"cache={shared / 'cache'}"]
                # others may want its picture; what trains it is checked elsewhere
                with pytest.MonkeyPatch.context() as patch, shapes.unchecked():
                    patch.setattr(summary, "draw_path", path.draw_path)
                    train(configuration("train", *chosen), str(folder))
        return folder

    return run_of


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """A folder for the subword models of a file's runs."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def no_pictures(monkeypatch) -> None:
    """A run's picture takes longer than its training; the tests of pictures have it drawn."""
    monkeypatch.setattr("simulmt.analysis.summary.draw_path", lambda _, path: path.touch())


@pytest.fixture
def drawn(monkeypatch) -> list[Figure]:
    """The figures that are saved."""
    from matplotlib.figure import Figure

    figures: list[Figure] = []
    save = Figure.savefig

    def keep(figure: Figure, *args, **kwargs) -> None:
        figures.append(figure)
        save(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


@pytest.fixture(scope="module")
def run(trained_once):
    """The run that tests of the server show."""
    from small_runs import LONGER

    return trained_once(*LONGER, "mechanism=mma_il")


@pytest.fixture(scope="module")
def at(run):
    """A server of it; the web libraries are imported by those who ask for it."""
    from serving import running

    with running([run]) as server:
        yield server


@pytest.fixture
def client(at):
    client = at.client()
    yield client
    client.close()
