"""`simulmt distil`: training text whose targets an offline model has written.

Sequence-level knowledge distillation (Kim & Rush 2016), and its monotonic kind (Wang et al. 2023).
Of N processes the one of rank r translates the blocks r, r + N, ... and appends them to its shard;
the process that ends last joins the shards.
"""

import logging
import os
import re
import shlex
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Literal

import torch
from omegaconf import DictConfig
from torch.multiprocessing.spawn import ProcessExitedException, spawn

from simulmt import ending
from simulmt.analysis import summary
from simulmt.builders import pick_device
from simulmt.console import counted, say
from simulmt.data.corpus import SPLITS, Split
from simulmt.data.files import FilePair
from simulmt.data.reader import read_pairs
from simulmt.data.workers import cores
from simulmt.decoding.lines import LineTranslator
from simulmt.disk import writing
from simulmt.errors import UserError
from simulmt.lock import alone
from simulmt.memory import enough_memory
from simulmt.options import Config, Count, Few, Tokens, construct
from simulmt.parts import load
from simulmt.programs.command import end
from simulmt.programs.lines import append, begin, check_same, digest_of, search_of, whole_lines
from simulmt.programs.plain import plain
from simulmt.programs.provenance import provenance
from simulmt.run_directory import read_json, replacing, write_json
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained

RECORD = "distil.json"
"""The last file of a folder: a folder that has it is finished."""
USUAL_K = 7
"""k of the monotonic kind for German to English (Wang et al. 2023)."""
_SHARDS = ".shards"
_GOES_ON = "the same command goes on"


@dataclass(frozen=True)
class Options:
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
    plugins: list[str]

    def __post_init__(self) -> None:
        source, target = self.source, self.target
        if self.k is not None and self.kind == "sequence":
            raise UserError(f"k={self.k} with kind=sequence: set kind=monotonic, or leave out k")
        if bool(source and self.references) != bool(target):
            raise UserError(
                f"references={self.references} with source={source} and target={target}: the "
                "references of source=FILE are target=FILE; give all three, or source alone"
            )
        if source and self.data_root:
            raise UserError(f"data_root={self.data_root} with source={source}: leave out one")


def distil(cfg: DictConfig) -> None:
    """Translate training text by a teacher, and print how to train on the result.

    Raises:
        UserError: anything a user can put right.
    """
    options, (rank, world) = construct(Options, plain(cfg), ""), _launched()
    device = pick_device(options.device).type
    here = options.processes or (cores() if device == "cpu" and world == 1 else 1)
    world *= here
    ending.listen()
    try:
        with enough_memory("batch_tokens, beam or processes", device, here):
            work = Work.of(options)
            summary.dropped(work.text, work.splits["train"])
            work.begin(world)
            if here == 1:
                work.translate(rank, world)
            else:
                _start(options, here, rank * here, world)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {_GOES_ON}") from None
    work.finish(world)


def _start(options: Options, here: int, first: int, world: int) -> None:
    """Translate some shards in processes of their own, which end with this one and one another."""
    logging.getLogger(spawn.__module__).setLevel(logging.ERROR)  # names each that it ends
    given = options, here, first, world, os.getpid()
    context = spawn(_translate, given, here, join=False)  # type: ignore[no-untyped-call]
    try:
        while not context.join():
            pass
    except ProcessExitedException as error:
        raise UserError(f"{error}; {_GOES_ON}") from None
    finally:
        for process in context.processes:
            process.kill()


def _translate(n: int, options: Options, here: int, first: int, world: int, parent: int) -> None:
    """Translate shard `first + n` in a process that `_start` has started."""
    ending.end_with(parent)
    os.environ["RANK"] = str(first + n)  # the first one shows its progress
    try:
        with enough_memory("batch_tokens, beam or processes", options.device, here):
            load(options.plugins)
            work = Work.of(options)
            work.begin(world)  # rejects a teacher that has changed
            work.translate(first + n, world)
    except UserError as error:
        end(str(error))


@dataclass(frozen=True)
class Work:
    """What a process needs to translate any shard, and to join all of them.

    Args:
        options: those of the command.
        trained: the teacher.
        translator: translates by it.
        text: the name of the text.
        splits: `train`, which is translated, and what is copied beside it.
        languages: those of source and target.
        job: what decides the translations, apart from the machine.
    """

    options: Options
    trained: Trained
    translator: LineTranslator
    text: str
    splits: Mapping[str, Split]
    languages: Sequence[str]
    job: Mapping[str, object]

    @classmethod
    def of(cls, options: Options) -> "Work":
        """Load the teacher and the text; nothing is written.

        Raises:
            UserError: the model is no teacher, or has no such text.
        """
        trained = checkpoint.load(options.checkpoint)
        model, longest = trained.build(), trained.setup.batch_tokens
        if not model.mechanism.offline:
            raise UserError(
                f"checkpoint={options.checkpoint} is a model of mechanism={model.mechanism.name}, "
                "which writes before it has read the whole sentence: take one of mechanism=soft"
            )
        languages = [trained.manifest.source_language, trained.manifest.target_language]
        if not re.fullmatch(r"([\w-]+) (?!\1$)[\w-]+", " ".join(languages)):
            raise UserError(
                f"{trained.path} translates from {languages[0]!r} to {languages[1]!r}: a corpus "
                "needs two languages whose codes can end the names of its files"
            )
        search = search_of(trained, model, None, options.beam, options.length_penalty)
        k = options.k or USUAL_K if options.kind == "monotonic" else None
        tokens = options.batch_tokens or 2 * longest
        text, splits = _text(options, trained)
        job = {
            "teacher": digest_of(trained),
            "kind": options.kind,
            "k": k,
            "beam": search.beam,
            "length_penalty": search.length_penalty,
            "batch_tokens": tokens,  # decides between hypotheses that are equal up to rounding
            "block": options.block,
            "pairs": len(splits["train"]),
            "source": splits["train"].sha256[0],
            "references": splits["train"].sha256[1] if options.references else None,
            "languages": languages,
        }
        model, subwords = model.to(_device(options.device)), trained.subwords
        translator = LineTranslator(model, subwords, search, tokens, longest, k=k)
        return cls(options, trained, translator, text, splits, languages, job)

    @property
    def folder(self) -> Path:
        """The folder of the corpus."""
        return self.options.to.expanduser().absolute()

    def begin(self, world: int) -> None:
        """Begin the folder, or check that the same command has begun it.

        Raises:
            UserError: the folder holds something else, or cannot be written.
        """
        folder, shards = self.folder, self.folder / _SHARDS
        with writing(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with alone(folder):
                if (folder / RECORD).exists():
                    check_same(folder, read_json(folder / RECORD)["job"], self.job)
                    return
                if folder.exists() and not shards.exists() and any(folder.iterdir()):
                    raise UserError(f"to={folder} holds something else; give a new or empty folder")
                shards.mkdir(parents=True, exist_ok=True)
                begin(folder, shards / "job.json", {**self.job, "processes": world})

    def translate(self, rank: int, world: int) -> None:
        """Translate the blocks of a shard, as far as they are not there yet."""
        if (self.folder / RECORD).exists():
            return
        lines, shard = self.splits["train"].sources, self.folder / _SHARDS / str(rank)
        blocks = append(shard, lines, self.options.block, self.translator, rank, world)
        deque(counted(blocks, "translating", int, len(lines) // world), maxlen=0)

    def finish(self, world: int) -> None:
        """Join the shards once all are complete, and print how to train on the corpus."""
        folder, shards, pairs = self.folder, self.folder / _SHARDS, len(self.splits["train"])
        with alone(folder), ExitStack() as stack:
            if not (folder / RECORD).exists():
                files = [stack.enter_context((shards / f"{n}").open("ab+")) for n in range(world)]
                if (there := sum(whole_lines(file)[0] for file in files)) < pairs:
                    say(f"{there:,} of {pairs:,} pairs: the process that ends last joins them")
                    return
                self._join(files)
            shutil.rmtree(shards, ignore_errors=True)
        self._show(read_json(folder / RECORD))

    def _join(self, files: Sequence[BinaryIO]) -> None:
        """Write the corpus, and at last its record."""
        folder, (source, target), train = self.folder, self.languages, self.splits["train"]
        for left in folder.glob("*.tmp"):  # by a process that was killed here
            left.unlink()
        texts: dict[str, Iterable[str]] = {}
        texts |= {f"{name}.{source}": split.sources for name, split in self.splits.items()}
        texts |= {f"{name}.{target}": split.targets for name, split in self.splits.items()}
        texts[f"train.{target}"] = self._joined(files)
        if self.options.references:
            texts[f"train.{source}"] = chain(train.sources, train.sources)
            texts[f"train.{target}"] = chain(self._joined(files), train.targets)
        for name, lines in texts.items():
            with replacing(folder / name) as unfinished, unfinished.open("wb") as file:
                file.writelines(f"{line}\n".encode() for line in lines)
        record = {
            "job": self.job,
            "checkpoint": str(self.trained.path),
            "text": self.text,
            "empty": sum(not line for line in self._joined(files)),
            "provenance": provenance(pick_device(self.options.device).type, self.trained.needs),
        }
        write_json(folder / RECORD, record)

    def _joined(self, files: Sequence[BinaryIO]) -> Iterator[str]:
        """Yield the lines of all shards in the order of the text."""
        block = self.options.block
        for file in files:
            file.seek(0)
        for number in range(-(-len(self.splits["train"]) // block)):
            for line in islice(files[number % len(files)], block):
                yield line.decode().removesuffix("\n")

    def _show(self, record: Config) -> None:
        """Print what the folder holds, and the command that trains on it."""
        options, (source, target), pairs = self.options, self.languages, len(self.splits["train"])
        original = f", then the {pairs:,} original pairs" if options.references else ""
        print(f"{options.to}: {pairs:,} pairs by {record['checkpoint']}{original}")
        if empty := record["empty"]:
            print(
                f"{empty:,} hypotheses are empty, and data=text drops these pairs; a source of "
                f"more than {self.translator.longest:,} subwords is not translated"
            )
        given = {"root": options.to, "source": source, "target": target}
        given |= {"valid": "STEM", "test": "STEM"} if options.source else {}
        given |= {"batch_tokens": self.translator.longest, "subwords.model": options.checkpoint}
        words = shlex.join(f"data.{key}={value}" for key, value in given.items())
        print(f"to train on it: simulmt train data=text {words}")


def _text(options: Options, trained: Trained) -> tuple[str, dict[str, Split]]:
    """Return the name of the text to translate, and its splits."""
    cache = options.cache.expanduser()
    if options.source is None:
        corpus = trained.own_corpus(SPLITS, options.data_root, cache)
        return corpus.name, {name: corpus.splits[name] for name in SPLITS}
    sides = (side.expanduser() for side in (options.source, options.target or options.source))
    return str(options.source), {"train": read_pairs([FilePair(*sides)], options.max_words, cache)}


def _device(choice: str) -> torch.device:
    """Return the device of this process; those of a launcher share the GPUs of a machine."""
    device = pick_device(choice)
    if device.type == "cpu":
        torch.set_num_threads(1)  # so that sums do not depend on the number of processes
        return device
    local = int(os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_LOCALID") or 0)
    return torch.device("cuda", local % torch.cuda.device_count())


def _launched() -> tuple[int, int]:
    """Return the rank of a process of torchrun or srun, and their number; else 0 and 1."""
    names = [("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")]
    there = [name for name in names if name[1] in os.environ]
    return (int(os.environ[there[0][0]]), int(os.environ[there[0][1]])) if there else (0, 1)
