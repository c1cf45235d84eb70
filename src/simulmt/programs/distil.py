"""`simulmt distil`: training text whose targets an offline model has written.

Sequence-level knowledge distillation (Kim & Rush 2016), and its monotonic kind (Wang et al. 2023).
"""

import hashlib
import os
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from omegaconf import DictConfig

from simulmt.analysis import summary
from simulmt.builders import build_search, pick_device
from simulmt.console import counted, say
from simulmt.data.corpus import Split
from simulmt.data.files import FilePair
from simulmt.data.lines import as_lines
from simulmt.data.reader import read_pairs
from simulmt.data.store import digest
from simulmt.data.workers import cores, spread
from simulmt.decoding.beam import beam_search
from simulmt.decoding.lines import Decode, translate_lines
from simulmt.decoding.monotonic_beam import monotonic_beam_search
from simulmt.decoding.search import BEAM, PENALTY, Search
from simulmt.disk import check_space, check_writable
from simulmt.errors import UserError
from simulmt.memory import enough_memory
from simulmt.models.model import Model
from simulmt.options import FOLDER_NAME, Count, Few, Tokens, construct
from simulmt.parts import load
from simulmt.programs.distilled import Distilled, Job, Record
from simulmt.programs.plain import plain
from simulmt.programs.provenance import provenance
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained

USUAL_K = 7
"""k of the monotonic kind for German to English (Wang et al. 2023)."""
_POLL = 1.0
"""Seconds between two looks at the work of other processes."""


@dataclass(frozen=True)
class Options:
    """The options of `conf/distil.yaml`, which explains each of them."""

    checkpoint: Path
    to: Path
    kind: Literal["sequence", "monotonic"]
    k: Count | None
    beam: Annotated[int, BEAM]
    length_penalty: Annotated[float, PENALTY] | None
    references: bool
    source: Path | None
    target: Path | None
    max_words: Count
    data_root: Path | None
    device: str
    processes: Few | None
    batch_tokens: Tokens | None
    block: Count
    cache: Path
    plugins: list[str]

    def __post_init__(self) -> None:
        if self.kind == "sequence" and self.k is not None:
            raise UserError(f"k={self.k} with kind=sequence: set kind=monotonic, or leave out k")
        if (self.source and self.references) and not self.target:
            raise UserError(
                f"references=true with source={self.source}: give the references, target=FILE"
            )
        if self.target and not (self.source and self.references):
            raise UserError(
                f"target={self.target} is for source=FILE with references=true: give both, or "
                "leave out target"
            )
        if self.source and self.data_root:
            raise UserError(
                f"data_root={self.data_root} with source={self.source}: the file is translated "
                "instead of the teacher's training text; leave out one of them"
            )


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
                    _longest(trained),
                )
            self.folder.write(number, translations)
        return len(lines)

    @cached_property
    def _loaded(self) -> tuple[Model, Trained]:
        if self.model is not None:
            return self.model
        load(self.plugins)
        trained = checkpoint.load(self.place)
        if _digest(trained) != self.job.teacher:
            raise UserError(f"{self.place} has changed: wait until its training has ended")
        return trained.build().to(self.device), trained

    @property
    def _decode(self) -> Decode:
        search = Search(self.job.beam, self.job.length_penalty)
        if self.job.k is None:
            return partial(beam_search, search=search)
        return partial(monotonic_beam_search, search=search, k=self.job.k)


def distil(cfg: DictConfig) -> None:
    """Translate training text by a teacher, and print how to train on the result.

    Raises:
        UserError: anything a user can put right.
    """
    options = construct(Options, plain(cfg), "")
    device, folder = _device(options.device), Distilled(options.to.expanduser())
    processes = _processes(options.processes, device)
    folder.check()
    check_writable(folder.folder)
    with enough_memory("batch_tokens, beam or processes", device.type, processes):
        trained = checkpoint.load(options.checkpoint)
        model = trained.build()
        search = _search(options, trained, model)
        text, split, others = _text(options, trained)
        job = _job(options, trained, search, split)
        _check_room(folder.folder, split, options.references)
        folder.begin(job)
        loaded = (model.to(device), trained) if processes == 1 else None
        teacher = Teacher(options.checkpoint, device, job, folder, options.plugins, loaded)
        try:
            _translate(teacher, split, processes)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; the same command goes on") from None
    origin = provenance(device.type, trained.needs)
    record = folder.join(split, others, Record(job, str(trained.path), text, 0, origin))
    _say_result(options, trained, record, _longest(trained))


def _search(options: Options, trained: Trained, model: Model) -> Search:
    """Return the search of the training with the options that were set.

    Raises:
        UserError: the model is no teacher, as it writes before it has read the whole sentence.
    """
    if not model.mechanism.offline:
        raise UserError(
            f"checkpoint={options.checkpoint} is a model of mechanism={model.mechanism.name}, "
            "which writes before it has read the whole sentence: take a teacher of mechanism=soft"
        )
    penalty = options.length_penalty
    given = {"beam": options.beam} | ({} if penalty is None else {"length_penalty": penalty})
    return build_search(trained.config["decoding"] | given, model)


def _text(options: Options, trained: Trained) -> tuple[str, Split, Mapping[str, Split]]:
    """Return the name of the text to translate, the text, and the splits that go beside it."""
    cache = options.cache.expanduser()
    if options.source is None:
        corpus = trained.own_corpus(["train", "valid", "test"], options.data_root, cache)
        splits = corpus.splits
        return corpus.name, splits["train"], {name: splits[name] for name in ("valid", "test")}
    files = FilePair(options.source.expanduser(), (options.target or options.source).expanduser())
    split = read_pairs([files], options.max_words, cache)
    summary.dropped(options.source.name, split)
    return str(options.source), split, {}


def _job(options: Options, trained: Trained, search: Search, split: Split) -> Job:
    """Return what decides the text.

    Raises:
        UserError: the languages of the teacher are no names of files.
    """
    languages = [trained.manifest[f"{side}_language"] for side in ("source", "target")]
    if languages[0] == languages[1] or not all(map(FOLDER_NAME.holds, languages)):
        raise UserError(
            f"{trained.path} translates from {languages[0]!r} to {languages[1]!r}: a corpus needs "
            "two languages whose codes can end the names of its files"
        )
    return Job(
        teacher=_digest(trained),
        kind=options.kind,
        k=None if options.kind == "sequence" else options.k or USUAL_K,
        beam=search.beam,
        length_penalty=search.length_penalty,
        batch_tokens=options.batch_tokens or 2 * trained.config["data"]["batch_tokens"],
        block=options.block,
        pairs=len(split),
        source=split.sha256[0],
        references=split.sha256[1] if options.references else None,
        languages=languages,
    )


def _translate(teacher: Teacher, split: Split, processes: int) -> None:
    """Translate all blocks, together with other processes that were started beside this one."""
    folder, size = teacher.folder, teacher.job.block
    blocks = -(-len(split) // size)
    undone = folder.undone(blocks)
    if 0 < len(undone) < blocks:
        say(f"{folder.folder}: {blocks - len(undone):,} of {blocks:,} blocks are there already")
    began, translated, waits = time.monotonic(), 0, False
    while undone:
        left = sum(len(range(n * size, min((n + 1) * size, len(split)))) for n in undone)
        ahead = ((n, [*split.sources[n * size : (n + 1) * size]]) for n in undone)
        work = spread(teacher, ahead, min(processes, len(undone)))
        done = 0
        for lines in counted(work, "translating", int, left):
            done += lines
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


def _say_result(options: Options, trained: Trained, record: Record, longest: int) -> None:
    """Print what the folder holds, and the command that trains on it."""
    job = record.job
    origin = f", then the {job.pairs:,} original pairs" if job.references else ""
    say(f"{options.to}: {job.pairs:,} pairs by {record.checkpoint}{origin}")
    if record.empty:
        say(
            f"{record.empty:,} hypotheses are empty (sources of more than {longest:,} subwords are "
            "not translated): data=text drops these pairs"
        )
    source, target = job.languages
    given = {"root": options.to, "source": source, "target": target}
    given |= {"valid": "STEM", "test": "STEM"} if options.source else {}
    limit = options.max_words if options.source else trained.config["data"].get("max_words")
    given |= {} if limit is None else {"max_words": limit}
    given |= {"batch_tokens": trained.config["data"]["batch_tokens"]}
    given |= {"subwords.model": options.checkpoint}
    words = (_typed(f"data.{key}", value) for key, value in given.items())
    say(f"to train on it: simulmt train data=text {' '.join(words)}")
    if options.source:
        say("STEM names your own valid and test files: data.valid=DIR/valid for DIR/valid.de, ...")


def _typed(key: str, value: object) -> str:
    """Return an override as a user types it."""
    text = str(value)
    if not re.fullmatch(r"[\w/.+%@:-]+", text):
        escaped = text.replace("\\", "\\\\").replace("'", "\\'")
        text = f"'{escaped}'"
    return shlex.quote(f"{key}={text}")


def _digest(trained: Trained) -> str:
    """Return the SHA-256 in hex of a model, its subwords and its weights."""
    state = hashlib.sha256()
    for name, value in sorted(trained.weights.items()):
        state.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        state.update(value.contiguous().view(torch.uint8).numpy().data if value.dim() else b"")
    parts = [trained.config[name] for name in ("model", "mechanism")]
    return digest([parts, trained.subwords.digest, state.hexdigest()])


def _longest(trained: Trained) -> int:
    """Return the most subwords of a sentence: those of the longest that the teacher trained on."""
    return int(trained.config["data"]["batch_tokens"])


def _check_room(folder: Path, split: Split, references: bool) -> None:
    """Refuse a disk that has no room for the corpus."""
    source = len(as_lines(split.sources).rows.values)
    target = len(as_lines(split.targets).rows.values) if references else 0
    needed = 3 * source + references * (source + target)  # translations in blocks, then joined
    check_space(folder, needed, "the distilled text", "or give another folder")


def _device(choice: str) -> torch.device:
    """Return the device of this process; those that a launcher started share the GPUs."""
    device = pick_device(choice)
    if device.type == "cpu":
        return device
    local = int(os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_LOCALID") or 0)
    return torch.device("cuda", local % torch.cuda.device_count())


def _processes(choice: int | None, device: torch.device) -> int:
    """Return the number of processes that this one works with.

    Raises:
        UserError: several for one GPU.
    """
    if device.type != "cpu":
        if choice not in (None, 1):
            raise UserError(
                f"processes={choice} on a GPU: leave it out, and start a process for each GPU with "
                "torchrun --standalone --nproc-per-node=GPUS -m simulmt distil ..."
            )
        return 1
    launched = int(os.environ.get("WORLD_SIZE") or 1) > 1
    return choice or (1 if launched else cores())


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
