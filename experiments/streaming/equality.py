"""Batched decoding equals streaming: every mechanism that streams, on every model.

    python experiments/streaming/equality.py [--runs runs/zoo] [--sentences 1000] [--jobs N] ...

Each sentence is decoded in a batch, and again by a translator that receives one word at a time.
Subwords, their delays and the delays of words must be the same. The check decodes with random
weights and with the checkpoints `MODEL/MECHANISM` in `--runs` (see experiments/zoo). It uses
float64, so that rounding never decides between two words. The exit status is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

import torch
import yaml  # type: ignore[import-untyped, unused-ignore]
from cells import CONF, Cell, Counts, compare, options_of
from rich.console import Console
from rich.progress import track

from simulmt.data.subwords import Subwords
from simulmt.data.verbfinal import verbfinal
from simulmt.errors import UserError
from simulmt.parts import builders
from simulmt.parts.builders import build_mechanism
from simulmt.system.disk import write_rows

MODELS = ("transformer", "rnmt_plus", "luong")
LONG = 200  # words of the longest sentence
CHUNK = 50  # sentences in a batch
UNKNOWN = "☃ 你好 ☃☃"
Results = dict[Cell, Counts]


def read_sentences(count: int) -> tuple[list[str], Subwords]:
    """Return the first test sentences and four odd ones, and subwords for random weights."""
    data = yaml.safe_load((CONF / "data" / "verbfinal.yaml").read_text(encoding="utf-8"))
    if not 0 <= count <= data["test"]:
        raise UserError(f"--sentences is {count}; the test set has {data['test']}")
    splits = verbfinal(*(data[key] for key in ("seed", "train", "valid", "test"))).splits
    sources = splits["test"].sources
    words = [word for source in sources for word in source.split()]
    odd = [words[0], " ".join(words[:LONG]), "", UNKNOWN]
    valid = splits["valid"]
    kind = data["subwords"]
    subwords = Subwords.train(valid.sample(), kind["size"], kind["kind"])
    return [*sources[:count], *odd], subwords


def make_cells(options: argparse.Namespace) -> list[Cell]:
    """Return random weights of each pair that streams, and its run if there is one."""
    known = sorted(path.stem for path in (CONF / "mechanism").glob("*.yaml"))
    mechanisms = options.mechanisms or known
    if unknown := {*mechanisms} - {*known} | {*options.models} - {*MODELS}:
        raise UserError(f"there is no {', '.join(sorted(unknown))}; known: {MODELS}, {known}")
    if options.runs and not options.runs.is_dir():
        raise UserError(f"--runs {options.runs}: no such directory")
    cells = []
    for mechanism in filter(_streams, mechanisms):
        for model in (name for name in options.models if _takes(name, mechanism)):
            run = options.runs and options.runs / model / mechanism
            if run and (run / "checkpoints").is_dir():
                cells.append(Cell(model, mechanism, run))
            if not options.trained_only:
                cells.append(Cell(model, mechanism, None))
    return cells


def _streams(mechanism: str) -> bool:
    return not build_mechanism(options_of("mechanism", mechanism)).offline


def _takes(model: str, mechanism: str) -> bool:
    several = build_mechanism(options_of("mechanism", mechanism)).several_states
    return builders.MODELS[model].takes_several_states or not several


def measure(cells: Sequence[Cell], options: argparse.Namespace, console: Console) -> Results:
    """Return the counts of each cell on all sentences, using `--jobs` processes."""
    sources, subwords = read_sentences(options.sentences)
    # the last chunk has the longest sentence: begun first, no process waits for it
    chunks = [sources[at : at + CHUNK] for at in range(0, len(sources), CHUNK)][::-1]
    results = dict.fromkeys(cells, Counts())
    context = get_context("spawn")
    with ProcessPoolExecutor(options.jobs, context, torch.set_num_threads, (1,)) as pool:
        tasks: dict[Future[Counts], Cell] = {
            pool.submit(compare, cell, chunk, subwords): cell for cell in cells for chunk in chunks
        }
        try:
            for task in track(as_completed(tasks), total=len(tasks), console=console):
                results[tasks[task]] += task.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results


def table(results: Results) -> str:
    """Return the sentences and the mismatches of each mechanism, by model and weights."""
    cells = sorted(results, key=lambda cell: (cell.run is not None, MODELS.index(cell.model)))
    columns = dict.fromkeys(f"{cell.model}, {cell.weights}" for cell in cells)
    rows = [["mechanism", *columns], ["---", *["---:"] * len(columns)]]
    for mechanism in dict.fromkeys(cell.mechanism for cell in results):
        counts = {
            f"{cell.model}, {cell.weights}": f"{count.sentences:,}: {count.mismatches}"
            for cell, count in results.items()
            if cell.mechanism == mechanism
        }
        rows.append([mechanism, *(counts.get(column, "–") for column in columns)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def write_files(results: Results, folder: Path) -> None:
    """Write `equality.md`, the table, and `equality.csv`, which also counts words held back."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "equality.md").write_text(table(results), encoding="utf-8")
    rows = [
        {"mechanism": x.mechanism, "model": x.model, "weights": x.weights, **asdict(counts)}
        for x, counts in results.items()
    ]
    write_rows(rows, folder / "equality.csv")


def run(options: argparse.Namespace) -> int:
    """Compare, print the table and write it; return the exit status."""
    if options.jobs < 1:
        raise UserError(f"--jobs is {options.jobs}; it must be at least 1")
    cells = make_cells(options)
    if not cells:
        raise UserError("there is nothing to compare: name a mechanism that streams, or its --runs")
    console = Console(highlight=False)
    console.width = max(console.width, 0 if console.is_terminal else 120)
    results = measure(cells, options, console)
    print(f"sentences: those in which stream and batch differ\n\n{table(results)}")
    write_files(results, options.output)
    console.print(f"written: {options.output / 'equality.csv'}, .md", markup=False)
    return int(any(counts.mismatches for counts in results.values()))


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])

    def names(text: str) -> list[str]:
        return text.split(",")

    add = parser.add_argument
    add("--runs", type=Path, metavar="DIR", help="holds trained runs, MODEL/MECHANISM")
    add("--trained-only", action="store_true", help="leave out random weights")
    add("--sentences", type=int, default=1000, metavar="N", help="default %(default)s, and 4 odd")
    add("--models", type=names, default=MODELS, metavar="A,B", help=f"default {','.join(MODELS)}")
    add("--mechanisms", type=names, metavar="A,B", help="default all that stream")
    add("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes at a time")
    place = Path("runs/equality")
    add("--output", type=Path, default=place, metavar="DIR", help="default %(default)s")
    return parser.parse_args(arguments)


def main() -> int:
    """Run the program; an error that a user can correct is one line."""
    try:
        return run(parse())
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
