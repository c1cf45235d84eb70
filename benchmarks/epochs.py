"""The order of an epoch for corpora as large as the papers': time and memory of a rank, and steps.

    python benchmarks/epochs.py DIR [--pairs 4500000 36000000]

The order depends only on the lengths of the sentences, so no text of that size is needed. A length
is the number of words of a pair drawn from the first 20,000 of DIR/train.de and DIR/train.en, times
the subwords per word, plus EOS. The subword model is trained on 18,000 of these pairs, and the
subwords are counted on the others. Each order is computed in a separate process, as on one of 8
ranks. Seconds are processor time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from frame import Result, show, summed_up
from numpy.typing import NDArray
from pipeline import GIB, WMT14, WMT15

from simulmt.data.batches import BucketBatches
from simulmt.data.reader import read_text
from simulmt.data.subwords import Subwords

TOKENS, RANKS = 16_000, 8  # of a batch, padding included
SAMPLE, UNSEEN = 20_000, 2_000  # pairs
SUBWORDS = 32_000
MOST_WORDS = 150


def sample_words(folder: Path) -> tuple[NDArray[np.int32], dict[str, float]]:
    """Words on both sides of the first pairs, (pairs, 2), and subwords per seen and unseen word."""
    corpus = read_text(str(folder), "de", "en", "train", "valid", "test", MOST_WORDS, "sample")
    pairs = corpus.splits["train"]  # other splits are not read
    sides = [[*islice(side, SAMPLE)] for side in (pairs.sources, pairs.targets)]
    words = np.array([[len(line.split()) for line in side] for side in sides], np.int32).T
    held_out = min(UNSEEN, len(words) // 10)
    parts = {"seen": slice(-held_out), "unseen": slice(-held_out, None)}
    lines = {name: [line for side in sides for line in side[part]] for name, part in parts.items()}
    subwords = Subwords.train(lines["seen"], SUBWORDS, "bpe")
    pieces = {name: len(subwords.encode_rows(some).values) for name, some in lines.items()}
    return words, {
        name: (pieces[name] - len(lines[name])) / float(words[part].sum())  # without EOS
        for name, part in parts.items()
    }


def order(lengths: NDArray[np.int32], pairs: int) -> list[Result]:
    """The order of an epoch of pairs whose lengths are drawn from the given ones, (some, 2)."""
    places = np.random.default_rng(0).integers(len(lengths), size=pairs, dtype=np.int32)
    drawn = torch.from_numpy(lengths[places])
    del places
    mean, before = float(drawn[:, 1].double().mean()), _memory("VmRSS") - drawn.nbytes / GIB
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # "most" is from here on
    start = time.process_time()
    batches = BucketBatches(drawn, TOKENS, seed=1, world_size=RANKS)
    del drawn
    epoch = batches.of_epoch(0)
    next(epoch)
    seconds = time.process_time() - start
    figures = {
        "until the first batch": (seconds, "s"),
        "memory at the most": (_memory("VmHWM") - before, "GiB"),
        "memory from then on": (_memory("VmRSS") - before, "GiB"),
        "batches for each rank": (len(batches), ""),
        "target subwords of a batch": (pairs * mean / len(batches) / RANKS, ""),
    }
    what = f"{pairs:,} pairs, order of an epoch: "
    return [summed_up("epoch", what + k, [v], unit=unit) for k, (v, unit) in figures.items()]


def _memory(name: str) -> float:
    """A figure of this process, in GiB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split(f"{name}:")[1].split()[0]) * 1024 / GIB


def measure(folder: Path, sizes: Sequence[int]) -> list[Result]:
    """Words and subwords of the sample, and the epochs."""
    words, ratios = sample_words(folder)
    found = [summed_up("text", "words of a sentence", [float(words.mean())], unit="")]
    for name, ratio in ratios.items():
        found.append(summed_up("text", f"subwords of a word, {name}", [ratio], unit=""))
    lengths = (words * ratios["unseen"]).round().astype(np.int32) + 1
    for pairs in sizes:
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            found += process.submit(order, lengths, pairs).result()
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of train.de and train.en")
    parser.add_argument("--pairs", type=int, nargs="+", default=[WMT15, WMT14], help="of epochs")
    given = parser.parse_args()
    show(measure(given.folder, given.pairs))
