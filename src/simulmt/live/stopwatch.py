"""A split translated word by word with a stopwatch, for computation-aware latency."""

import time
from dataclasses import replace

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
        as a word. `Instance.elapsed` of a target word is in source words: those read when the word
        was written, plus the computing time of the sentence until then.
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
    words = split.sources[index].split()
    elapsed, times = list[float](), list[float]()
    for count in range(1, len(words) + 2):
        started = time.perf_counter()
        new = translator.read(words[count - 1] if count <= len(words) else None)
        times.append(1000 * (time.perf_counter() - started))
        elapsed += [min(count, len(words)) + sum(times) / word_ms] * len(new)
    instance = write_down(index, split, translator.stream.written, translator.subwords)
    return replace(instance, elapsed=tuple(elapsed)), times
