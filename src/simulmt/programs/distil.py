"""`simulmt distil`: training text whose targets an offline model has written.

Sequence-level knowledge distillation (Kim & Rush 2016), and its monotonic kind (Wang et al. 2023).
Each of N processes translates its part of the text into a shard, in blocks; the process that ends
last joins the shards.
"""

import logging
import os
import re
import shlex
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

import torch
from omegaconf import DictConfig
from torch.multiprocessing.spawn import ProcessExitedException, spawn

from simulmt.analysis import summary
from simulmt.data.corpus import SPLITS, Split
from simulmt.data.pairs import FilePair
from simulmt.data.reader import read_pairs
from simulmt.data.workers import cores
from simulmt.errors import UserError
from simulmt.live.lines import LineTranslator
from simulmt.options import Config, Count, Few, Tokens, construct
from simulmt.parts import load
from simulmt.parts.builders import pick_device
from simulmt.programs.command import end
from simulmt.programs.lines import append, begin, check_same, digest_of, search_of, whole_lines
from simulmt.programs.plain import plain
from simulmt.programs.provenance import provenance
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained
from simulmt.system import ending
from simulmt.system.console import counted, say
from simulmt.system.disk import read_json, replacing, write_json, writing
from simulmt.system.lock import alone
from simulmt.system.memory import enough_memory

RECORD = "distil.json"
"""The last file of a folder: a folder that has it is finished."""
_SHARDS = ".shards"
_GOES_ON = "the same command goes on"
_REMEDY = "batch_tokens, beam or processes"


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


@dataclass(frozen=True)
class Work:
    """A text and the teacher that translates it, the same in all processes.

    Attributes:
        options: Those of the command.
        teacher: The teacher.
        translate: Translates by it.
        text: The name of the text.
        splits: `train`, which is translated, and what is copied beside it.
        languages: Those of source and target.
        job: What decides the translations, apart from the machine.
        folder: The folder of the corpus.
    """

    options: DistilOptions
    teacher: Trained
    translate: LineTranslator
    text: str
    splits: Mapping[str, Split]
    languages: Sequence[str]
    job: Config
    folder: Path


def distil(cfg: DictConfig) -> None:
    """Translate training text by a teacher, and print how to train on the result.

    Raises:
        UserError: anything a user can put right.
    """
    options, (rank, world) = construct(DistilOptions, plain(cfg), ""), ending.launched()
    device = pick_device(options.device).type
    here = options.processes or (cores() if device == "cpu" and world == 1 else 1)
    world *= here
    ending.handle_signals()
    try:
        with enough_memory(_REMEDY, device, here):
            work = prepare(options)
            summary.dropped(work.text, work.splits["train"])
            if not begin_folder(work, world):
                if here == 1:
                    translate(work, rank, world)
                else:
                    _start(options, here, rank * here, world)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {_GOES_ON}") from None
    join_blocks(work, world)


def _start(options: DistilOptions, here: int, first: int, world: int) -> None:
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


def _translate(
    n: int, options: DistilOptions, here: int, first: int, world: int, parent: int
) -> None:
    """Translate shard `first + n` in a process that `_start` has started."""
    ending.end_with(parent)
    os.environ["RANK"] = str(first + n)  # the first one shows its progress
    try:
        with enough_memory(_REMEDY, options.device, here):
            load(options.plugins)
            translate(prepare(options), first + n, world)
    except UserError as error:
        end(str(error))


def prepare(options: DistilOptions) -> Work:
    """Return the teacher, loaded, and the text; nothing is written.

    Raises:
        UserError: the model is not a teacher, or has no such text.
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
    k = options.k or 7 if options.kind == "monotonic" else None  # German-English (Wang et al.)
    tokens = options.batch_tokens or 2 * longest
    model, subwords = model.to(_device(options.device)), trained.subwords
    translator = LineTranslator(model, subwords, search, tokens, longest, k=k)
    text, splits = _text(options, trained)
    job = {
        "teacher": digest_of(trained),
        "kind": options.kind,
        "k": k,
        **asdict(search),
        "batch_tokens": tokens,  # decides between hypotheses that are equal up to rounding
        "block": options.block,
        "pairs": len(splits["train"]),
        "source": splits["train"].sha256[0],
        "references": splits["train"].sha256[1] if options.references else None,
        "languages": languages,
    }
    folder = options.to.expanduser().absolute()
    return Work(options, trained, translator, text, splits, languages, job, folder)


def begin_folder(work: Work, world: int) -> bool:
    """Begin the folder, or check that the same command has begun it; True if it is finished.

    Raises:
        UserError: the folder holds something else, or cannot be written.
    """
    folder, record, shards = work.folder, work.folder / RECORD, work.folder / _SHARDS
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with alone(folder):
            if record.exists():
                check_same(folder, read_json(record)["job"], work.job)
                return True
            if folder.exists() and not shards.exists() and any(folder.iterdir()):
                raise UserError(f"to={folder} holds something else; give a new or empty folder")
            shards.mkdir(parents=True, exist_ok=True)
            begin(folder, shards / "job.json", {**work.job, "processes": world})
    return False


def translate(work: Work, rank: int, world: int) -> None:
    """Translate the part of the text that a process has, as far as it is not there yet."""
    lines, block = work.splits["train"].sources, work.options.block
    blocks = -(-len(lines) // block)
    part = slice(rank * blocks // world, (rank + 1) * blocks // world)
    done = append(work.folder / _SHARDS / str(rank), lines, block, work.translate, part)
    deque(counted(done, "translating", int, len(lines) // world), maxlen=0)


def join_blocks(work: Work, world: int) -> None:
    """Join the shards once all are complete, and print how to train on the corpus."""
    folder, pairs = work.folder, len(work.splits["train"])
    with alone(folder):
        if not (folder / RECORD).exists():
            shards = [folder / _SHARDS / str(rank) for rank in range(world)]
            if (there := sum(whole_lines(shard)[0] for shard in shards)) < pairs:
                say(f"{there:,} of {pairs:,} pairs: the process that ends last joins them")
                return
            _write(work, shards)
        shutil.rmtree(folder / _SHARDS, ignore_errors=True)
    _show(work, read_json(folder / RECORD))


def _write(work: Work, shards: Sequence[Path]) -> None:
    """Write the corpus, and at last its record."""
    folder, (source, target), train = work.folder, work.languages, work.splits["train"]
    for left in folder.glob("*.tmp"):  # by a process that was killed here
        left.unlink()
    texts: dict[str, Iterable[str]] = {}
    texts |= {f"{name}.{source}": split.sources for name, split in work.splits.items()}
    texts |= {f"{name}.{target}": split.targets for name, split in work.splits.items()}
    texts[f"train.{target}"] = _lines(shards)
    if work.options.references:
        texts[f"train.{source}"] = chain(train.sources, train.sources)
        texts[f"train.{target}"] = chain(_lines(shards), train.targets)
    for name, lines in texts.items():
        with replacing(folder / name) as unfinished, unfinished.open("wb") as file:
            file.writelines(f"{line}\n".encode() for line in lines)
    record = {
        "job": work.job,
        "checkpoint": str(work.teacher.path),
        "text": work.text,
        "empty": sum(not line for line in _lines(shards)),
        "provenance": provenance(pick_device(work.options.device).type, work.teacher.needs),
    }
    write_json(folder / RECORD, record)


def _lines(shards: Sequence[Path]) -> Iterator[str]:
    for shard in shards:
        with shard.open(encoding="utf-8", newline="\n") as file:
            yield from (line.removesuffix("\n") for line in file)


def _show(work: Work, record: Config) -> None:
    """Print what the folder holds, and the command that trains on it."""
    options, (source, target), longest = work.options, work.languages, work.translate.longest
    pairs = len(work.splits["train"])
    original = f", then the {pairs:,} original pairs" if options.references else ""
    print(f"{options.to}: {pairs:,} pairs by {record['checkpoint']}{original}")
    if empty := record["empty"]:
        print(f"{empty:,} hypotheses are empty, and data=text drops these pairs")
    given = {"root": options.to, "source": source, "target": target}
    given |= {"valid": "STEM", "test": "STEM"} if options.source else {}
    given |= {"batch_tokens": longest, "subwords.model": options.checkpoint}
    words = shlex.join(f"data.{key}={value}" for key, value in given.items())
    print(f"to train on it: simulmt train data=text {words}")


def _text(options: DistilOptions, trained: Trained) -> tuple[str, dict[str, Split]]:
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
