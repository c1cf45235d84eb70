"""Time of streaming, word by word, and against batches, on one CPU thread.

    python benchmarks/streaming.py [--checkpoint RUN] [--output results.csv] [--sentences 100]

Measures milliseconds per source subword read and per subword written, in sentences of three
lengths, with tiny models and random weights, which do not affect the time. With a run on the
built-in data, it also measures sentences per second of batches, of the live translator, and of
SimulEval driving the translator, if it is installed. Figures are medians of processor time, which
with one thread is the time on an idle machine.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from frame import configuration
from rich.console import Console
from rich.table import Table

from simulmt.data.verbfinal import verbfinal
from simulmt.decoding import incremental
from simulmt.decoding.greedy import greedy
from simulmt.decoding.incremental import SentenceStream
from simulmt.decoding.own_decision import Decision
from simulmt.decoding.streaming import take_step
from simulmt.errors import UserError
from simulmt.live.translator import Translator
from simulmt.models.model import Model
from simulmt.models.results import DecoderStep
from simulmt.models.vocabulary import Vocabulary
from simulmt.parts.builders import build_mechanism, build_model

LENGTHS = (10, 50, 200)
PAIRS = [
    (model, name) for model in ("transformer", "rnmt_plus") for name in ("wait_k", "mma_il", "soft")
]
VOCABULARY = Vocabulary(8000)
BATCH = 128
REPEATS = 3
Row = tuple[str, str, str, float]
"""The measurement, its subject, its unit and its value."""


class Timed:
    """A stream as long as its source; records the time of each read and each write, in ms."""

    def __init__(self, model: Model, length: int) -> None:
        model.length_limit = lambda read: torch.full_like(read, length)
        self.stream = SentenceStream(model)
        self.reads: list[float] = []
        self.writes: list[float] = []

    def read_word(self, word: Sequence[int]) -> None:
        """Read a word of one subword; the time not spent on writing is the cost of reading."""
        written, start = len(self.writes), time.process_time()
        with patch.object(incremental, "take_step", self._step):
            self.stream.read_word(word)
        total = 1e3 * (time.process_time() - start)
        self.reads.append(total - sum(self.writes[written:]))

    def _step(self, *arguments: Any) -> tuple[DecoderStep, Decision]:
        start = time.process_time()
        step, decision = take_step(*arguments)
        if not decision.reads and not decision.ends:
            self.writes.append(1e3 * (time.process_time() - start))
        return step, decision


def random_model(kind: str, mechanism: str) -> Model:
    torch.manual_seed(0)
    config = configuration(f"model={kind}", f"mechanism={mechanism}")
    parts = build_mechanism(config["mechanism"])
    return build_model(config["model"], parts, VOCABULARY).eval()


def of_a_word(repeats: int) -> list[Row]:
    """Medians over all reads except EOS, and all writes, of a few sentences of each length."""
    rows = []
    for kind, mechanism in PAIRS:
        model = random_model(kind, mechanism)
        for length in LENGTHS:
            lives = []
            for _ in range(repeats):
                lives.append(Timed(model, length))
                eos = VOCABULARY.eos
                words = torch.randint(eos + 1, VOCABULARY.size, (length,)).tolist()
                for token in [*words, eos]:
                    lives[-1].read_word([token])
            reads = [ms for live in lives for ms in live.reads[:-1]]
            writes = [ms for live in lives for ms in live.writes]
            of = f"{kind}, {mechanism}, {length} subwords"
            rows.append((of, "read", "ms", statistics.median(reads)))
            rows.append((of, "write", "ms", statistics.median(writes)))
    return rows


def rate(run: Callable[[], object], sentences: int) -> float:
    """Sentences per second."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return sentences / statistics.median(times)


def in_batches(translator: Translator, sources: Sequence[str]) -> None:
    subwords, eos = translator.subwords, translator.model.vocabulary.eos
    ids = sorted((subwords.encode(source) for source in sources), key=len)
    for at in range(0, len(ids), BATCH):
        rows = [torch.tensor([*row, eos]) for row in ids[at : at + BATCH]]
        source = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        for hypothesis in greedy(translator.model, source, source != 0):
            subwords.decode(hypothesis.tokens)


def one_by_one(translator: Translator, sources: Sequence[str]) -> None:
    for source in sources:
        translator.reset()
        for word in source.split():
            translator.read(word)
        translator.finish()


def by_simuleval(checkpoint: Path, sources: Sequence[str]) -> float:
    """Run SimulEval's loop and write its log, without loading or scoring."""
    from simuleval.evaluator import build_evaluator  # noqa: PLC0415  # optional, and slow
    from simuleval.utils.agent import build_system_args  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text"
        text.write_text("".join(source + "\n" for source in sources), encoding="utf-8")
        agent = ["--agent-class", "simulmt.live.simuleval_agent.SimulmtAgent"]
        files = ["--source", str(text), "--target", str(text), "--output", folder]
        quiet = ["--no-scoring", "--no-progress-bar", "--log-level", "error"]
        command = ["simuleval", *agent, "--checkpoint", str(checkpoint), *files, *quiet]
        with patch.object(sys, "argv", command):
            system, options = build_system_args()
        return rate(lambda: build_evaluator(options)(system), len(sources))


def of_a_checkpoint(checkpoint: Path, sentences: int) -> list[Row]:
    translator = Translator.load(checkpoint, device="cpu")
    sources = verbfinal(1, 1, 1, 1000).splits["test"].sources
    few, of = sources[:sentences], str(checkpoint)
    rates = {
        f"batches of {BATCH}": rate(lambda: in_batches(translator, sources), len(sources)),
        "translator": rate(lambda: one_by_one(translator, few), len(few)),
    }
    if importlib.util.find_spec("simuleval"):
        rates["SimulEval"] = by_simuleval(checkpoint, few)
    return [(of, name, "sentences/s", value) for name, value in rates.items()]


def tables(rows: Sequence[Row]) -> list[Table]:
    steps = [row for row in rows if row[2] == "ms"]
    words = Table("", "read", "write", title="one subword, one thread, median ms")
    for (of, _, _, read), (_, _, _, write) in zip(steps[::2], steps[1::2], strict=True):
        words.add_row(of, f"{read:.2f}", f"{write:.2f}")
    rates = [row for row in rows if row[2] != "ms"]
    speed = Table("", "sentences/s", "batches are", title="one thread, medians")
    for _, name, _, value in rates:
        speed.add_row(name, f"{value:.1f}", f"{rates[0][3] / value:.0f}x")
    return [words, speed] if rates else [words]


def write(rows: Sequence[Row], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("of", "what", "unit", "median"), *rows])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, help="a run on verbfinal, for sentences/s")
    parser.add_argument("--output", type=Path, help="write the medians as CSV to this file")
    parser.add_argument(
        "--sentences", type=int, default=100, help="for what is slow (default: %(default)s)"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    try:
        rows = of_a_word(REPEATS)
        if arguments.checkpoint:
            rows += of_a_checkpoint(arguments.checkpoint, arguments.sentences)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    console = Console(width=100)
    for table in tables(rows):
        console.print(table)
    if arguments.output:
        write(rows, arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
