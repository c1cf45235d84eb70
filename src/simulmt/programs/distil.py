"""`simulmt distil`: training text whose targets an offline model has written.

Sequence-level knowledge distillation (Kim & Rush 2016), and its monotonic kind (Wang et al. 2023).
Each of N processes translates its part of the text in blocks; the last one to finish joins them.
"""

import os
import re
import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Literal

import torch
from omegaconf import DictConfig

from simulmt.analysis import summary
from simulmt.data.corpus import SPLITS, Corpus, Split
from simulmt.data.pairs import FilePair
from simulmt.data.reader import read_pairs
from simulmt.decoding.writing import unspaced
from simulmt.errors import UserError
from simulmt.live.lines import LineTranslator
from simulmt.options import Config, Count, Few, Tokens, construct
from simulmt.parts.builders import pick_device
from simulmt.programs.line_job import LineJob
from simulmt.programs.lines import line_search
from simulmt.programs.plain import plain
from simulmt.programs.provenance import provenance
from simulmt.programs.teacher import load_offline
from simulmt.saved.trained import Trained
from simulmt.system.console import say
from simulmt.system.cores import cores
from simulmt.system.disk import read_json
from simulmt.system.ending import CONTINUES, handle_signals, is_worker, launched
from simulmt.system.memory import enough_memory
from simulmt.training.launch import reported, run_ranks

RECORD = "distil.json"
"""The last file of a folder: a folder that has it is finished."""


@dataclass(frozen=True)
class DistilOptions:
    """The options of `conf/distil.yaml`, which explains each of them."""

    checkpoint: Path
    to: Path
    kind: Literal["sequence", "monotonic"]
    k: Count | None
    beam: Few
    length_penalty: float | None
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

    def __post_init__(self) -> None:
        source, target = self.source, self.target
        if self.k is not None and self.kind == "sequence":
            raise UserError(f"k={self.k} with kind=sequence: set kind=monotonic, or leave out k")
        if source and self.data_root:
            raise UserError(
                f"data_root={self.data_root} is for the model's own data: leave it out, or leave "
                f"out source={source}"
            )
        if bool(source and self.references) != bool(target):
            raise UserError(
                f"references={self.references} with source={source} and target={target}: "
                "target=FILE holds the references of source=FILE; give all three, or source alone"
            )


def distil(cfg: DictConfig) -> None:
    """Translate training text by a teacher, and print how to train on the result.

    Raises:
        UserError: a mistake that a user can correct.
    """
    options, (rank, world) = construct(DistilOptions, plain(cfg), ""), launched()
    device, here = pick_device(options.device).type, 1
    if world == 1:
        here = options.processes or (cores() if device == "cpu" else 1)
    elif (options.processes or 1) > 1 and not is_worker():
        raise UserError(
            f"processes={options.processes}, but torchrun or srun has started {world} processes: "
            "leave out processes"
        )
    handle_signals(lambda: CONTINUES)
    shared = world if is_worker() else here
    with reported():
        with enough_memory("batch_tokens, beam or processes", device, shared):
            work = Distillation.of(options)
            if is_worker():
                work.job.translate(work.translator, rank, world)
                return
            summary.print_dropped(work.corpus.name, work.train)
            place, unfinished = work.job.place, work.job.folder
            there = place.iterdir() if place.is_dir() else ()
            if not work.job.begin(taken=any(path != unfinished for path in there)):
                if here > 1:
                    run_ranks(here)
                else:
                    work.job.translate(work.translator, rank, world)
        work.join()


@dataclass(frozen=True)
class Distillation:
    """A text and the teacher that translates it, the same in all processes.

    Attributes:
        options: The options of the command.
        teacher: The model that translates.
        translator: Translates lines with the teacher.
        corpus: The text: `train`, which is translated, and what is copied beside it.
    """

    options: DistilOptions
    teacher: Trained
    translator: LineTranslator
    corpus: Corpus

    @classmethod
    def of(cls, options: DistilOptions) -> "Distillation":
        """Load the teacher and find the text; nothing is written.

        Raises:
            UserError: the model is not a teacher, or has no such text.
        """
        trained, model = load_offline("checkpoint", options.checkpoint)
        longest, described = trained.setup.batch_tokens, trained.manifest
        source, target = described.source_language, described.target_language
        if not re.fullmatch(r"([\w-]+) (?!\1$)[\w-]+", f"{source} {target}"):
            raise UserError(
                f"{trained.path} translates from {source!r} to {target!r}: a corpus needs two "
                "different language codes that can serve as file extensions"
            )
        search = line_search(trained, model, None, options.beam, options.length_penalty)
        k = options.k or 7 if options.kind == "monotonic" else None  # German-English (Wang et al.)
        tokens, model = options.batch_tokens or 2 * longest, model.to(_device(options.device))
        translator = LineTranslator(model, trained.subwords, search, tokens, longest, k=k)
        if options.source is None:
            corpus = trained.own_corpus(SPLITS, options.data_root, options.cache)
        else:
            files = FilePair(options.source, options.target or options.source)
            writing = trained.subwords.writing
            if options.target is None:  # the source stands on both sides
                writing = replace(writing, target=writing.source)
            pairs = read_pairs([files], options.max_words, options.cache, writing)
            corpus = Corpus(str(options.source), source, target, {"train": pairs})
        return cls(options, trained, translator, corpus)

    @property
    def train(self) -> Split:
        """The pairs to translate."""
        return self.corpus.splits["train"]

    @cached_property
    def job(self) -> LineJob:
        """The lines, and all that affects their translations except the machine."""
        source, target = self.train.sha256
        job = {
            "teacher": self.teacher.digest,
            "kind": self.options.kind,
            "k": self.translator.k,
            **asdict(self.translator.search),
            "batch_tokens": self.translator.tokens,  # rounding decides between equal hypotheses
            "block": self.options.block,
            "pairs": len(self.train),
            "source": source,
            "references": target if self.options.references else None,
            "languages": [self.corpus.source_language, self.corpus.target_language],
        }
        folder, lines = self.options.to.absolute(), self.train.sources
        record, unfinished = folder / RECORD, folder / ".unfinished"
        return LineJob(folder, record, unfinished, job, lines, self.options.block)

    def join(self) -> None:
        """Join the blocks once all are complete, and print how to train on the corpus."""
        job, train, texts = self.job, self.train, dict[Path, Iterable[str]]()
        source, target = self.corpus.source_language, self.corpus.target_language
        for name, split in self.corpus.splits.items():
            texts[job.place / f"{name}.{source}"] = split.sources
            texts[job.place / f"{name}.{target}"] = split.targets
        original = train if self.options.references else Split([], [])
        texts[job.place / f"train.{source}"] = chain(train.sources, original.sources)
        texts[job.place / f"train.{target}"] = chain(job.translations(), original.targets)
        writing = self.teacher.subwords.writing
        sides = {f".{source}": writing.source, f".{target}": writing.target}
        for path, lines in texts.items():
            texts[path] = map(partial(unspaced, characters=sides[path.suffix]), lines)
        facts = {
            "checkpoint": str(self.teacher.path),
            "text": self.corpus.name,
            "provenance": provenance(pick_device(self.options.device).type, self.teacher.needs),
        }
        if missing := job.publish(texts, facts):
            left = f"{missing:,} of {job.blocks:,} blocks are not translated yet"
            say(f"{left}: the last process to finish joins them")
        else:
            self._show(read_json(job.record))

    def _show(self, record: Config) -> None:
        """Print what the folder holds, and the command that trains on it."""
        options, corpus, pairs = self.options, self.corpus, len(self.train)
        original = f", then the {pairs:,} original pairs" if options.references else ""
        print(f"{options.to}: {pairs:,} pairs translated by {record['checkpoint']}{original}")
        if empty := record["empty"]:
            print(f"{empty:,} translations are empty; data=text drops these pairs")
        source, target = corpus.source_language, corpus.target_language
        given = {"root": options.to, "source": source, "target": target}
        given |= {"valid": "VALID", "test": "TEST"} if options.source else {}
        stems = " (VALID and TEST are the stems of your files there)" if options.source else ""
        if sides := self.teacher.subwords.writing.sides:
            given["characters"] = f"[{','.join(sides)}]"
        own = dict(self.teacher.setup.data)
        own |= {"max_words": options.max_words} if options.source else {}
        given |= {key: own[key] for key in ("max_words", "bleu") if own.get(key) is not None}
        given |= {"batch_tokens": self.translator.longest, "subwords.model": options.checkpoint}
        words = shlex.join(f"data.{key}={value}" for key, value in given.items())
        print(f"to train on it{stems}: simulmt train mechanism=wait_k data=text {words}")


def _device(choice: str) -> torch.device:
    """Return the device of this process; all processes share the GPUs of a machine."""
    device = pick_device(choice)
    if device.type == "cpu":
        torch.set_num_threads(1)  # so that sums do not depend on the number of processes
        return device
    local = int(os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_LOCALID") or 0)
    return torch.device("cuda", local % torch.cuda.device_count())
