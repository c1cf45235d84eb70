"""A split translated word by word with a stopwatch, for computation-aware latency."""

import time
from dataclasses import replace
from itertools import accumulate

import numpy as np

from simulmt.data.corpus import Split
from simulmt.decoding.instance import Instance
from simulmt.live.translator import Translator
from simulmt.scoring.scores import Computing
from simulmt.scoring.split_decoder import write_down
from simulmt.system.console import watch


def translate_timed(
    translator: Translator, split: Split, word_ms: float
) -> tuple[list[Instance], Computing]:
    """Translate a split word by word.

    Args:
        translator: translates one sentence at a time.
        split: the sentences.
        word_ms: duration of a source word, in milliseconds.

    Returns:
        The instances and the computing time of a source word, where the end of the sentence counts
        as a word.
    """
    if len(split):  # warms up: what is loaded once is not measured
        _translate(translator, split, 0, word_ms)
    instances, computing = [], list[float]()
    for index in watch(range(len(split))):
        instance, times = _translate(translator, split, index, word_ms)
        instances.append(instance)
        computing += times
    median, p95, most = np.quantile(computing, (0.5, 0.95, 1.0)).tolist()
    return instances, Computing(median, p95, most)


def _translate(
    translator: Translator, split: Split, index: int, word_ms: float
) -> tuple[Instance, list[float]]:
    """Return the instance of a sentence, and the milliseconds that each read took."""
    translator.reset()
    times = list[float]()
    for word in (*split.sources[index].split(), None):
        started = time.perf_counter()
        translator.read(word)
        times.append(1000 * (time.perf_counter() - started))
    instance = write_down(index, split, translator.stream.written, translator.subwords)
    spent, last = [0.0, *accumulate(times)], len(times)
    reads = [d if n < instance.before_end else last for n, d in enumerate(instance.delays)]
    pairs = zip(instance.delays, reads, strict=True)
    return replace(instance, elapsed=tuple(d + spent[n] / word_ms for d, n in pairs)), times
