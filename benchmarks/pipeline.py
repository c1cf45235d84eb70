"""From text files to batches: speed on one core and on all, memory, disk, and the first update.

    python benchmarks/pipeline.py [--repeats 7]           # beside a training step (`make bench`)
    python benchmarks/pipeline.py --pairs 1000000 2000000 # corpora of these sizes, once each

The files contain artificial words with realistic frequencies (Zipf's law), 5 to 45 in a sentence. A
first start reads and encodes the text; a second start maps the files of the first. Each start is a
separate process. The subword model is trained before and not timed. Memory is the peak of the
process's unshared memory (RssAnon); all processes share the mapped files.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from frame import REPEATS, ROOT, Result, environment, in_turns, show, summed_up
from start import UNTIL_FIRST_UPDATE, python
from steps import batch, model, settings, step, vocabulary

from simulmt.data.batches import BucketBatches
from simulmt.data.encoded import EncodedSplit
from simulmt.data.reader import read_text
from simulmt.data.subwords import Subwords
from simulmt.training.datamodule import TrainLoader
from simulmt.training.machine import prepare_machine

FEW, MANY, WMT15, WMT14 = 10_000, 200_000, 4_500_000, 36_000_000  # pairs
SPEED, CORES, MEMORY, MOST_MEMORY = 10.0, 1.8, 0.5, 2.0
FIRST_UPDATE = 10.0  # seconds
WORDS = 50_000
CHUNK = 10_000
TOKENS, LENGTH = 4096, 25  # of the training step
GIB = 2**30
PREPARE = """
import json, pathlib, sys
sys.path.append("benchmarks")
import pipeline
print(json.dumps(pipeline.prepare(*map(pathlib.Path, sys.argv[1:]))))
"""


def write_corpus(folder: Path, pairs: int) -> None:
    """Write text files of `pairs` pairs, and small files for validation and test."""
    rng = np.random.default_rng(0)
    letters = np.array(list("eeeennniiisssrrraaattdhulcgmobwfkzpväüöß"))
    words = np.array(["".join(rng.choice(letters, rng.integers(2, 13))) for _ in range(WORDS)])
    share = 1 / np.arange(1, WORDS + 1)
    up_to = np.cumsum(share / share.sum())
    for stem, count in (("train", pairs), ("valid", 10), ("test", 10)):
        for side in ("de", "en"):
            with (folder / f"{stem}.{side}").open("w", encoding="utf-8") as file:
                for start in range(0, count, CHUNK):
                    lengths = rng.integers(5, 46, min(CHUNK, count - start))
                    places = np.searchsorted(up_to, rng.random(lengths.sum()))
                    text = words[np.minimum(places, WORDS - 1)]
                    for line in np.split(text, np.cumsum(lengths)[:-1]):
                        file.write(" ".join(line) + "\n")


def prepare(folder: Path, cache: Path) -> dict[str, float]:
    """Everything up to the last batch of an epoch; seconds of each part, tokens, memory in GiB."""
    times, most = [time.perf_counter()], 0.0
    stems = "train", "valid", "test"
    corpus = read_text(str(folder), "de", "en", *stems, 150, "made up", cache)
    split = corpus.splits["train"]
    times.append(time.perf_counter())
    subwords = Subwords.train(
        split.sample(), 8000, "bpe", cache=folder / "subwords", digest="made up"
    )
    times.append(time.perf_counter())
    encoded = EncodedSplit.encode(split, subwords, cache)
    times.append(time.perf_counter())
    loader = TrainLoader(encoded, BucketBatches(encoded.lengths, TOKENS, seed=1))
    tokens = 0
    for number, given in enumerate(loader):
        if not number:
            times.append(time.perf_counter())
        if not number % 500:
            most = max(most, own_memory())
        tokens += int(given.target_mask.sum())
    times.append(time.perf_counter())
    names = ("read", "subwords", "encode", "order", "batches")
    parts = {name: b - a for name, a, b in zip(names, times, times[1:], strict=False)}
    return parts | {"tokens": tokens, "memory": max(most, own_memory())}


def own_memory() -> float:
    """The unshared resident memory of this process, in GiB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    return int(found[1]) * 1024 / GIB if found else float("nan")


def in_a_process(folder: Path, cache: Path, cores: int | None = None) -> dict[str, float]:
    """The same in a new process, on all cores or a number of them."""
    # as in `train.py`, the processes that encode import nothing with the main program
    command = [sys.executable, "-c", PREPARE, str(folder), str(cache)]
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:cores])
    try:
        done = subprocess.run(
            command, env=environment(), check=True, text=True, stdout=subprocess.PIPE, cwd=ROOT
        )
    finally:
        os.sched_setaffinity(0, allowed)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def first_start(folder: Path, cores: int | None = None) -> dict[str, float]:
    """A start with an empty cache."""
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        return in_a_process(folder, Path(cache), cores)


def made(found: dict[str, float]) -> float:
    """Seconds of reading and encoding."""
    return found["read"] + found["encode"]


def measure(repeats: int) -> list[Result]:
    """Measure in turns with a training step that also uses all cores."""
    prepare_machine()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    config = settings("transformer_multi30k", "multi30k_deen", "soft")
    given = batch(TOKENS, LENGTH, vocabulary(config))
    train, tokens = step(model(config), config, given), int(given.target_mask.sum())
    with tempfile.TemporaryDirectory() as few, tempfile.TemporaryDirectory() as many:
        write_corpus(Path(few), FEW)
        write_corpus(Path(many), MANY)
        first_start(Path(few))  # trains the subwords
        faster = []
        train()
        for _ in range(repeats):
            start = time.perf_counter()
            train()
            training = tokens / (time.perf_counter() - start)
            found = first_start(Path(few))
            faster.append(found["tokens"] / (made(found) + found["batches"]) / training)
        first_start(Path(many))
        rounds = [[made(first_start(Path(many), n)) for n in (1, None)] for _ in range(3)]
        small, large = (second_start(Path(folder)) for folder in (few, many))
    growth = (large["memory"] - small["memory"]) / (MANY - FEW)
    limits = ((WMT15, MEMORY), (WMT14, MOST_MEMORY))
    return [
        summed_up("data", "text to batches: times the tokens/s of training", faster, least=SPEED),
        summed_up(
            "data",
            "first encoding: times as fast on all cores as on one",
            [alone / together for alone, together in rounds],
            least=CORES,
        ),
        *(
            summed_up(
                "data",
                f"a process's own memory with {pairs:,} pairs, by growth from {FEW:,} to {MANY:,}",
                [small["memory"] + growth * (pairs - FEW)],
                unit="GiB",
                most=most,
            )
            for pairs, most in limits
        ),
    ]


def second_start(folder: Path) -> dict[str, float]:
    """A start that finds everything in the cache."""
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        in_a_process(folder, Path(cache))
        return in_a_process(folder, Path(cache))


def whole(pairs: int) -> list[Result]:
    """Both starts of a corpus, its disk, and the seconds until `train.py` trains on it."""
    with tempfile.TemporaryDirectory() as place:
        folder, cache = Path(place), Path(place) / "cache"
        write_corpus(folder, pairs)
        in_a_process(folder, cache)  # trains the subwords
        one, both = (made(first_start(folder, cores)) for cores in (1, None))
        again = in_a_process(folder, cache)
        disk = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
        options = ["data=text", f"data.root={folder}", "data.source=de", "data.target=en"]
        options += [f"hydra.run.dir={folder}/run", f"cache={cache}", "trainer.progress=false"]
        first = functools.partial(python, "-c", UNTIL_FIRST_UPDATE, "train.py", *options)
        waited = in_turns({"update": first}, 3, time.perf_counter, warm_up=1)["update"]
    what = f"{pairs:,} pairs: "
    figures = {
        "first encoding on one core": (pairs / one, "pairs/s"),
        "first encoding on all cores": (pairs / both, "pairs/s"),
        "cache": (disk / GIB, "GiB"),
        "second start, reading": (made(again) + again["subwords"], "s"),
        "second start, order of an epoch": (again["order"], "s"),
        "batches": (pairs / again["batches"], "pairs/s"),
        "a process's own memory": (again["memory"], "GiB"),
    }
    return [
        *(
            summed_up("data", what + name, [value], unit=unit)
            for name, (value, unit) in figures.items()
        ),
        summed_up(
            "start", what + "train.py to its first update", waited, unit="s", most=FIRST_UPDATE
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--repeats", type=int, default=REPEATS, help="rounds (default: %(default)s)"
    )
    parser.add_argument("--pairs", type=int, nargs="+", help="measure corpora of these sizes, once")
    given = parser.parse_args()
    if given.pairs:
        show([result for pairs in given.pairs for result in whole(pairs)])
    else:
        show(measure(given.repeats))


if __name__ == "__main__":
    main()
