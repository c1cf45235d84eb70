"""`report.py`: compare all finished runs of a folder in a table, CSV files, curves and a page."""

from omegaconf import DictConfig

from simulmt.analysis import report as comparison
from simulmt.files.plugins import CONF, HOME
from simulmt.programs.plain import plain


def report(config: DictConfig) -> None:
    """Compare the runs, with published figures of `experiments`."""
    comparison.report(plain(config), HOME / CONF)
