"""A stream of 100,000 words: the time for a word, and the memory, as the stream goes on.

    PYTHONPATH=src python benchmarks/streams.py RUN [WORDS]

RUN was trained with `data.documents=true`. Its test set is read again and again. Times are of the
processor, so other processes on the machine matter little; the garbage collector runs as usual.
"""

import sys
import time
from itertools import chain, cycle, islice
from pathlib import Path
from statistics import median

import torch

from simulmt.decoding.cuts import CUTS
from simulmt.decoding.document import DocumentStream
from simulmt.saved import checkpoint
from simulmt.system.console import watch

START, WINDOW = 1_000, 10_000
"""The first windows of words are compared with the last one."""


def resident() -> float:
    """The memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def main(run: str, count: int) -> None:
    """Print the figures of every window."""
    torch.set_num_threads(1)
    trained = checkpoint.load(Path(run))
    model, sources = trained.build(), trained.own_split("test", None).sources
    words = chain.from_iterable(source.split() for source in cycle(sources))
    stream = DocumentStream(model, CUTS["pointer" if model.boundary else "likelihood"])
    times, ended = list[float](), 0
    for number, word in enumerate(watch([*islice(words, count)]), 1):
        began = time.process_time()
        stream.read_word(trained.subwords.encode(word))
        ended += len(stream.ended())
        times.append(1000 * (time.process_time() - began))
        if number in (START, WINDOW) or number % WINDOW == 0:
            first = max(number - WINDOW, START) if number > START else 0
            found = f"{median(times[first:number]):.3f} ms a word, {resident():.1f} MiB"
            print(f"words {first:,} to {number:,}: {found}, {ended:,} sentences", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
