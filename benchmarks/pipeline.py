"""From text files to batches: subwords per second on all cores, and memory.

    python benchmarks/pipeline.py [--repeats 7]       # beside a training step, as in `make bench`
    python benchmarks/pipeline.py --pairs 4500000     # WMT14's size, once; about half an hour

The files hold made-up words, as frequent as words are (Zipf's law), 5 to 45 of them in a sentence.
Read, encode and one epoch of batches are timed in a process of their own; the subword model, which
is trained once, is not. With `--pairs` it is, and the most memory that was resident is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from frame import REPEATS, ROOT, Result, environment, show, summed_up
from steps import batch, model, settings, step, vocabulary

from simulmt.data.batches import BucketBatches
from simulmt.data.encoded import EncodedSplit
from simulmt.data.reader import read_text
from simulmt.data.subwords import Subwords
from simulmt.training.datamodule import TrainLoader
from simulmt.training.machine import prepare_machine

FEW, MANY, WMT14 = 10_000, 50_000, 4_500_000  # pairs
SPEED, MEMORY = 10.0, 4.0  # times the subwords per second of training; GiB
WORDS = 50_000
CHUNK = 10_000
TOKENS, LENGTH = 4096, 25  # of the training step
GIB = 2**30


def write_corpus(folder: Path, pairs: int) -> None:
    """Text files of `pairs` pairs, and small ones beside them for validation and test."""
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


def prepare(folder: Path) -> dict[str, float]:
    """Everything up to the last batch of an epoch; seconds of each part, tokens, peak in GiB."""
    times = [time.perf_counter()]
    corpus = read_text(str(folder), "de", "en", "train", "valid", "test", 150, "made up")
    split = corpus.splits["train"]
    times.append(time.perf_counter())
    subwords = Subwords.train(split.text, 8000, "bpe", cache=folder)
    times.append(time.perf_counter())
    encoded = EncodedSplit.encode(split, subwords)
    times.append(time.perf_counter())
    batches = TrainLoader(encoded, BucketBatches(encoded.lengths, TOKENS, seed=1))
    tokens = sum(int(given.target_mask.sum()) for given in batches)
    times.append(time.perf_counter())
    names = ("read", "subwords", "encode", "batches")
    parts = {name: b - a for name, a, b in zip(names, times, times[1:], strict=False)}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB
    return parts | {"tokens": tokens, "peak": peak}


def in_a_process(folder: Path) -> dict[str, float]:
    """The same in a fresh process, so that memory is its own."""
    command = [sys.executable, __file__, "--prepare", str(folder)]
    done = subprocess.run(
        command, env=environment(), check=True, text=True, stdout=subprocess.PIPE, cwd=ROOT
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def rate(found: dict[str, float]) -> float:
    """Target subwords per second, without the training of the subword model."""
    return found["tokens"] / (found["read"] + found["encode"] + found["batches"])


def measure(repeats: int) -> list[Result]:
    """In turns with a training step that has all cores, too."""
    prepare_machine()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    config = settings("transformer_multi30k", "multi30k_deen", "soft")
    given = batch(TOKENS, LENGTH, vocabulary(config))
    train, tokens = step(model(config), config, given), int(given.target_mask.sum())
    with tempfile.TemporaryDirectory() as few, tempfile.TemporaryDirectory() as many:
        write_corpus(Path(few), FEW)
        write_corpus(Path(many), MANY)
        small, faster = in_a_process(Path(few)), []
        train()
        for _ in range(repeats):
            start = time.perf_counter()
            train()
            training = tokens / (time.perf_counter() - start)
            small = in_a_process(Path(few))
            faster.append(rate(small) / training)
        in_a_process(Path(many))  # its subwords are in the cache then, as in the others
        large = in_a_process(Path(many))
    growth = (large["peak"] - small["peak"]) / (MANY - FEW)
    resident = small["peak"] + growth * (WMT14 - FEW)
    return [
        summed_up("data", "text to batches: times the tokens/s of training", faster, least=SPEED),
        summed_up(
            "data",
            f"resident with {WMT14:,} pairs, by growth from {FEW:,} to {MANY:,}",
            [resident],
            unit="GiB",
            most=MEMORY,
        ),
    ]


def whole(pairs: int) -> list[Result]:
    """One corpus of so many pairs, its subword model with it."""
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(Path(folder), pairs)
        found = in_a_process(Path(folder))
    for name, value in found.items():
        print(f"{name}: {value:,.2f}")
    return [
        summed_up(
            "data", f"resident with {pairs:,} pairs", [found["peak"]], unit="GiB", most=MEMORY
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--repeats", type=int, default=REPEATS, help="rounds (default: %(default)s)"
    )
    parser.add_argument("--pairs", type=int, help="prepare a corpus of this size instead, once")
    parser.add_argument("--prepare", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.prepare:
        print(json.dumps(prepare(given.prepare)))
    else:
        show(whole(given.pairs) if given.pairs else measure(given.repeats))


if __name__ == "__main__":
    main()
