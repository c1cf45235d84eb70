"""A function for each verb, which Hydra calls with the composed configuration.

Each function imports its program itself, since torch takes seconds to import.
"""

# ruff: noqa: PLC0415

from pathlib import Path

from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from simulmt.plugins import HOME
from simulmt.programs.command import job
from simulmt.programs.plain import hydra_record, plain


def train(config: DictConfig) -> float | None:
    """Train, test, and write everything into the run directory.

    Returns:
        In a sweep, the value that a search maximises.
    """
    chosen = HydraConfig.get()
    folder, record = chosen.runtime.output_dir, hydra_record(config)
    with job(config):
        if chosen.mode == RunMode.MULTIRUN:
            from simulmt.programs.sweep import sweep_run

            waits = not _may_postpone(chosen)
            return sweep_run(config, Path(folder), chosen.job.num, record, waits=waits)
        from simulmt.programs.train import train

        train(config, folder, record)
    return None


def _may_postpone(chosen: HydraConf) -> bool:
    """Return whether the sweep may leave a run until its end and then train it in this process.

    A search needs the value of a run at once, and a cluster trains on other machines.
    """
    parts = (chosen.sweeper._target_, chosen.launcher._target_)
    sweeper, launcher = (part.rpartition(".")[2] for part in parts)
    return sweeper == "BasicSweeper" and launcher in {"BasicLauncher", "JoblibLauncher"}


def evaluate(config: DictConfig) -> None:
    """Decode a split with a checkpoint and write and print its scores."""
    with job(config):
        from simulmt.programs.evaluate import evaluate

        evaluate(config)


def translate(config: DictConfig) -> None:
    """Translate standard input live, or a file in batches."""
    with job(config):
        from simulmt.programs.translate import translate

        translate(config)


def serve(config: DictConfig) -> None:
    """Serve the page that interprets."""
    with job(config):
        from simulmt.programs.serve import serve

        serve(config)


def report(config: DictConfig) -> None:
    """Compare all finished runs of a folder in a table, CSV files, curves and a page."""
    with job(config):
        from simulmt.analysis.report import report

        report(plain(config), HOME)


def analyse(config: DictConfig) -> None:
    """Make one study of one or several runs, and write its figure and its table."""
    with job(config):
        from simulmt.programs.analyse import analyse

        analyse(config)


def align(config: DictConfig) -> None:
    """Align sentence pairs, and write their links."""
    with job(config):
        from simulmt.programs.align import align

        align(config)


def distil(config: DictConfig) -> None:
    """Translate training text by an offline model, as training text for others."""
    with job(config):
        from simulmt.programs.distil import distil

        distil(config)


def import_(config: DictConfig) -> None:
    """Turn a folder in Marian's format into one like those of `export`."""
    with job(config):
        from simulmt.programs.marian import import_model

        import_model(config)


def export(config: DictConfig) -> None:
    """Write weights, configuration, subword model and a card with the scores."""
    with job(config):
        from simulmt.programs.export import export

        export(config)
