"""Writes and draws BLEU on the development set over the updates of some runs.

python experiments/comparison/converged.py RUN [RUN ...] --to FOLDER

writes FOLDER/converged.csv, a row for each validation, and FOLDER/converged.png.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from matplotlib.figure import Figure

from simulmt.files.metrics import read_columns


def main(runs: list[Path], to: Path) -> None:
    """Write the rows and the picture."""
    rows = [
        {"run": run.name, "update": int(step) + 1, "BLEU_dev": bleu}
        for run in runs
        for step, bleu in read_columns(run, "step", "valid/BLEU")
    ]
    to.mkdir(parents=True, exist_ok=True)
    with (to / "converged.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.subplots()
    for run in runs:
        own = [row for row in rows if row["run"] == run.name]
        axes.plot([r["update"] for r in own], [r["BLEU_dev"] for r in own], label=run.name)
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
