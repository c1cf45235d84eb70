"""Delays of `simulmt oracle` on the built-in data against those of the grammar.

    python experiments/oracle/verbfinal.py RUN ... [--to experiments/oracle/verbfinal.csv]

For each run and epsilon, the shares of the words whose delay equals that of the grammar, is lower
or higher; the same share without full stops; and DAL in words. Rows of other runs in the file stay.

An early word is certain if the same word follows in every other pair that begins with the same
source words, up to its delay, and with the same target words. The script draws 200,000 pairs and
prints the number of early words whose beginnings occur in them, and of those that are certain.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import TypeAlias

import numpy as np

from simulmt.data.corpus import Split, oracle_delays
from simulmt.data.verbfinal import verbfinal
from simulmt.files.instances import read_lists
from simulmt.saved import checkpoint
from simulmt.system.disk import write_rows

OTHER_SEED, OTHERS = 77, 200_000
Beginning: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]


def compared(split: Split, lists: Path) -> dict[str, float]:
    """The columns of one epsilon."""
    assert split.needs is not None, "the grammar knows its links"
    apart, words = list[int](), list[str]()
    pairs = zip(read_lists(lists), split.needs, split.targets, strict=True)
    for one, needs, target in pairs:
        known = oracle_delays(needs)
        apart += [own - exact for own, exact in zip(one.delays, known, strict=True)]
        words += target.split()
    difference, others = np.array(apart), np.array(words) != "."
    return {
        "equal": float((difference == 0).mean()),
        "early": float((difference < 0).mean()),
        "late": float((difference > 0).mean()),
        "equal_without_full_stops": float((difference[others] == 0).mean()),
    }


def certain(split: Split, lists: Path) -> tuple[int, int]:
    """The early words whose beginnings occur in other pairs, and those of them that are certain."""
    assert split.needs is not None, "the grammar knows its links"
    early = list[tuple[Beginning, str]]()
    pairs = zip(read_lists(lists), split.sources, split.targets, split.needs, strict=True)
    for one, source, target, needs in pairs:
        words = target.split()
        for place, (own, known) in enumerate(zip(one.delays, oracle_delays(needs), strict=True)):
            if own < known:
                early.append((beginning(source.split(), own, words, place), words[place]))
    follows: dict[Beginning, set[str]] = {start: set() for start, _ in early}
    sizes = {(len(source), len(target)) for source, target in follows}
    others = verbfinal(OTHER_SEED, OTHERS, 1, 1).splits["train"]
    for source, target in zip(others.sources, others.targets, strict=True):
        read, words = source.split(), target.split()
        for own, place in sizes:
            start = beginning(read, own, words, place)
            if start in follows and place < len(words):
                follows[start].add(words[place])
    seen = [(follows[start], word) for start, word in early if follows[start]]
    return len(seen), sum(following == {word} for following, word in seen)


def beginning(source: list[str], read: int, target: list[str], written: int) -> Beginning:
    """The first words of a pair."""
    return tuple(source[:read]), tuple(target[:written])


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--to", type=Path, default=Path(__file__).with_suffix(".csv"))
    given = parser.parse_args()
    rows = [*csv.DictReader(given.to.open(encoding="utf-8"))] if given.to.exists() else []
    rows = [row for row in rows if row["model"] not in {run.name for run in given.runs}]
    for run in given.runs:
        split = checkpoint.load(run).own_split("test", None)
        for latency in csv.DictReader((run / "oracle/test.csv").open(encoding="utf-8")):
            epsilon = latency["epsilon"]
            lists = run / f"oracle/test-epsilon{float(epsilon):g}.json"
            found, (seen, sure) = compared(split, lists), certain(split, lists)
            row = {"model": run.name, "epsilon": epsilon, **found, "DAL": latency["DAL"]}
            print("  ".join(f"{key} {value}" for key, value in row.items()))
            print(f"  {sure} of {seen} early words are certain")
            rows.append({key: str(value) for key, value in row.items()})
    write_rows(rows, given.to)


if __name__ == "__main__":
    main()
