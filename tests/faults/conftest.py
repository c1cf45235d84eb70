"""A world of runs for each worker, and a table of the faults that were tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from faults.world import World


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> Iterator[World]:
    """The runs that faults befall."""
    world = World(tmp_path_factory.mktemp("faults"))
    yield world
    world.type_in.close()


def pytest_terminal_summary(terminalreporter) -> None:
    """Print the table, in Markdown."""
    counts: dict[str, Counter[str]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, row in getattr(report, "user_properties", ()):
                if name == "faults" and report.when == "call":
                    counts.setdefault(row.pop("class"), Counter()).update(row)
    if counts:
        terminalreporter.section("faults")
        print_row = terminalreporter.write_line
        print_row("| class | cases | of | failures | seconds |")
        print_row("|---|---:|---:|---:|---:|")
        for name, c in sorted(counts.items()):
            print_row(f"| {name} | {c['tried']} | {c['of']} | {c['failures']} | {c['seconds']} |")
