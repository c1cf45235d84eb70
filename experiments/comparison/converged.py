"""Writes and draws BLEU on the development set over the updates of some runs.

python experiments/comparison/converged.py RUN [RUN ...] --to FOLDER

writes FOLDER/converged.csv, a row for each validation, FOLDER/converged.png, and FOLDER/bases.csv,
the SHA-256 of each run's tested checkpoint. Rows of other runs stay in these files.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from matplotlib.figure import Figure

from simulmt.data.store import digest_of_file
from simulmt.files.metrics import read_columns
from simulmt.files.run_directory import tested_checkpoint
from simulmt.system.disk import write_rows


def merged(rows: list[dict[str, str]], path: Path) -> list[dict[str, str]]:
    """Write a CSV file that keeps its rows of other runs, and return all rows."""
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            new = {row["run"] for row in rows}
            rows = [row for row in csv.DictReader(file) if row["run"] not in new] + rows
    write_rows(rows, path)
    return rows


def main(runs: list[Path], to: Path) -> None:
    """Write the rows and the picture."""
    to.mkdir(parents=True, exist_ok=True)
    rows = [
        {"run": run.name, "update": str(int(step) + 1), "BLEU_dev": str(bleu)}
        for run in runs
        for step, bleu in read_columns(run, "step", "valid/BLEU")
    ]
    if not rows:
        raise SystemExit(f"no validation in {', '.join(map(str, runs))}: give directories of runs")
    rows = merged(rows, to / "converged.csv")
    checkpoints = {run.name: tested_checkpoint(run) for run in runs}
    digests = [{"run": n, "sha256": digest_of_file(c)} for n, c in checkpoints.items() if c]
    merged(digests, to / "bases.csv")
    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.subplots()
    for name in dict.fromkeys(row["run"] for row in rows):
        own = [row for row in rows if row["run"] == name]
        axes.plot([int(r["update"]) for r in own], [float(r["BLEU_dev"]) for r in own], label=name)
    axes.set_xlabel("updates")
    axes.set_ylabel("BLEU, development set")
    axes.grid(color="#e6e6e6", linewidth=0.6)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(to / "converged.png", dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--to", type=Path, required=True)
    main(**vars(parser.parse_args()))
