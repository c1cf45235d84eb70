"""The work of `simulmt distil`: blocks of lines, translated by one or more processes."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import torch

from simulmt.console import counted, say
from simulmt.data.store import digest
from simulmt.data.workers import spread
from simulmt.decoding.beam import beam_search
from simulmt.decoding.lines import Decode, translate_lines
from simulmt.decoding.monotonic_beam import monotonic_beam_search
from simulmt.decoding.search import Search
from simulmt.errors import UserError
from simulmt.models.model import Model
from simulmt.parts import load
from simulmt.programs.distilled import Distilled, Job
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained

_POLL = 1.0
"""Seconds between two looks at the work of other processes."""


@dataclass(frozen=True)
class Teacher:
    """Translates blocks of lines in this process, or in another that loads the model anew.

    Args:
        place: the checkpoint or folder.
        device: the device of the model.
        job: how to translate.
        folder: takes the translations.
        plugins: packages that add parts.
        model: the model with its subwords, if this process has them.
    """

    place: Path
    device: torch.device
    job: Job
    folder: Distilled
    plugins: list[str]
    model: tuple[Model, Trained] | None = None

    def __call__(self, block: tuple[int, list[str]]) -> int:
        """Translate a block, unless another process does; return the number of its lines."""
        number, lines = block
        with self.folder.claim(number) as claimed:
            if not claimed:
                return 0
            (model, trained), beam = self._loaded, self.job.beam
            with _one_thread(self.device):
                translations = translate_lines(
                    model,
                    trained.subwords,
                    lines,
                    self._decode,
                    max(1, self.job.batch_tokens // beam),
                    longest(trained),
                )
            self.folder.write(number, translations)
        return len(lines)

    @cached_property
    def _loaded(self) -> tuple[Model, Trained]:
        if self.model is not None:
            return self.model
        load(self.plugins)
        trained = checkpoint.load(self.place)
        if digest_of(trained) != self.job.teacher:
            raise UserError(f"{self.place} has changed: wait until its training has ended")
        return trained.build().to(self.device), trained

    @property
    def _decode(self) -> Decode:
        search = Search(self.job.beam, self.job.length_penalty)
        if self.job.k is None:
            return partial(beam_search, search=search)
        return partial(monotonic_beam_search, search=search, k=self.job.k)


def translate(teacher: Teacher, sources: Sequence[str], processes: int) -> None:
    """Translate all blocks, together with other processes that were started beside this one.

    Args:
        teacher: translates a block.
        sources: all lines.
        processes: the number of processes that this one works with.

    Raises:
        UserError: a block cannot be written, or a process was killed.
    """
    folder, size = teacher.folder, teacher.job.block
    blocks = -(-len(sources) // size)
    undone = folder.undone(blocks)
    if 0 < len(undone) < blocks:
        say(f"{folder.folder}: {blocks - len(undone):,} of {blocks:,} blocks are there already")
    began, translated, waits = time.monotonic(), 0, False
    while undone:
        free = [n for n in undone if folder.is_free(n)] if waits else undone
        left = sum(len(range(n * size, min((n + 1) * size, len(sources)))) for n in free)
        ahead = ((n, [*sources[n * size : (n + 1) * size]]) for n in free)
        work = spread(teacher, ahead, processes)
        done = sum(counted(work, "translating", int, left))
        translated += done
        undone = folder.undone(blocks)
        if undone and not done:
            if not waits:
                say(f"waiting: other processes translate the last {len(undone):,} blocks")
            waits = True
            time.sleep(_POLL)
    if translated:
        seconds = time.monotonic() - began
        say(f"{translated:,} sentences in {seconds:,.0f} s, {translated / seconds:,.1f} a second")


def digest_of(trained: Trained) -> str:
    """Return the SHA-256 in hex of a model, its subwords and its weights."""
    state = hashlib.sha256()
    for name, value in sorted(trained.weights.items()):
        state.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        state.update(value.contiguous().view(torch.uint8).numpy().data if value.dim() else b"")
    parts = [trained.config[name] for name in ("model", "mechanism")]
    return digest([parts, trained.subwords.digest, state.hexdigest()])


def longest(trained: Trained) -> int:
    """Return the most subwords of a sentence: those of the longest that the teacher trained on."""
    return int(trained.config["data"]["batch_tokens"])


@contextmanager
def _one_thread(device: torch.device) -> Iterator[None]:
    """Compute with one thread on a CPU, so that sums do not depend on the number of processes."""
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
