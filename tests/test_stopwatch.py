"""With a stopwatch, a word counts as written when all reads before it have been computed."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

from simulmt.data.corpus import Split
from simulmt.live import stopwatch
from simulmt.live.translator import Translator


def test_computing_time_adds_up_over_the_reads_of_a_sentence(trained_once, monkeypatch):
    translator = Translator.load(trained_once("mechanism=wait_k"))
    ticks = count()  # half a second from one look at the clock to the next
    clock = SimpleNamespace(perf_counter=lambda: next(ticks) / 2)
    monkeypatch.setattr(stopwatch, "time", clock)
    split = Split(["der Mann sagt etwas", "der Hut"], ["x", "y"])
    instances, computing = stopwatch.translate_timed(translator, split, word_ms=1000)
    assert (computing.median, computing.p95, computing.max) == (500, 500, 500)
    late = 0
    for instance, words in zip(instances, (4, 2), strict=True):
        ended = [n >= instance.before_end for n in range(len(instance.delays))]
        reads = [words + 1 if e else d for e, d in zip(ended, instance.delays, strict=True)]
        pairs = zip(instance.delays, reads, strict=True)
        assert instance.elapsed == tuple(delay + read / 2 for delay, read in pairs)
        late += sum(ended)
    assert late, "some words should follow the end"
