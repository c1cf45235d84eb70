"""A split translated word by word with a clock running: what computing adds to the latency."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from simulmt.data.corpus import Split
from simulmt.decoding.corpus import write_down
from simulmt.decoding.instance import Instance
from simulmt.live.translator import Translator
from simulmt.scoring.scores import Computing


def translate_timed(
    translator: Translator,
    split: Split,
    word_ms: float,
    watch: Callable[[list[int]], Iterable[int]] = iter,
) -> tuple[list[Instance], Computing]:
    """Translate a split as a listener gets it.

    Args:
        translator: one sentence at a time.
        split: the sentences.
        word_ms: how long a source word lasts, in milliseconds.
        watch: wraps the loop over sentences, to show how far it is.

    Returns:
        The instances, `elapsed` in source words: those read when a word was given out, and the
        computing time of the sentence so far. And the computing for each source word, where
        the end of the sentence counts as one.
    """
    if len(split):  # what is loaded once is no part of translating
        _one(translator, split, 0, word_ms)
    instances, took = [], list[float]()
    for index in watch([*range(len(split))]):
        instance, times = _one(translator, split, index, word_ms)
        instances.append(instance)
        took += times
    median, p95, most = np.quantile(took, (0.5, 0.95, 1.0)).tolist()
    return instances, Computing(median, p95, most)


def _one(
    translator: Translator, split: Split, index: int, word_ms: float
) -> tuple[Instance, list[float]]:
    """One sentence, and the milliseconds that each read took."""
    translator.reset()
    words = split.sources[index].split()
    elapsed, times = list[float](), list[float]()
    for count in range(len(words) + 1):
        started = time.perf_counter()
        new = translator.read(words[count]) if count < len(words) else translator.finish()
        times.append(1000 * (time.perf_counter() - started))
        read = min(count + 1, len(words))
        elapsed += [read + sum(times) / word_ms] * len(new)
    ids = [token for word in words for token in translator.subwords.encode(word)]
    instance = write_down(index, split, translator.live.written, ids, translator.subwords)
    return replace(instance, elapsed=tuple(elapsed)), times
