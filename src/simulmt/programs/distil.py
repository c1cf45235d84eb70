"""`simulmt distil`: training text whose targets an offline model has written.

Sequence-level knowledge distillation (Kim & Rush 2016), and its monotonic kind (Wang et al. 2023).
"""

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Le
from omegaconf import DictConfig

from simulmt import ending
from simulmt.analysis import summary
from simulmt.builders import build_search, pick_device
from simulmt.console import say
from simulmt.data.corpus import Split
from simulmt.data.files import FilePair
from simulmt.data.lines import as_lines
from simulmt.data.reader import read_pairs
from simulmt.data.workers import cores
from simulmt.decoding.search import Search
from simulmt.disk import check_space, check_writable
from simulmt.errors import UserError
from simulmt.memory import enough_memory
from simulmt.models.model import Model
from simulmt.options import Count, Few, Tokens, construct, is_folder_name
from simulmt.programs.distilled import Distilled, Job, Record
from simulmt.programs.distiller import Teacher, digest_of, longest, translate
from simulmt.programs.plain import plain
from simulmt.programs.provenance import provenance
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained

USUAL_K = 7
"""k of the monotonic kind for German to English (Wang et al. 2023)."""
_GOES_ON = "the same command goes on"


@dataclass(frozen=True)
class Options:
    """The options of `conf/distil.yaml`, which explains each of them."""

    checkpoint: Path
    to: Path
    kind: Literal["sequence", "monotonic"]
    k: Count | None
    beam: Few
    length_penalty: Annotated[float, Ge(0), Le(100)] | None
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
        ending.remedy(_GOES_ON)  # after SIGTERM
        try:
            translate(teacher, split.sources, processes)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted; {_GOES_ON}") from None
    origin = provenance(device.type, trained.needs)
    record = folder.join(split, others, Record(job, str(trained.path), text, 0, origin))
    _say_result(options, trained, record)


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
        if not trained.manifest["splits"]:
            raise UserError(
                f"checkpoint={options.checkpoint} was imported, and has no training text of its "
                "own: give source=FILE"
            )
        corpus = trained.own_corpus(["train", "valid", "test"], options.data_root, cache)
        splits = corpus.splits
        summary.dropped("train", splits["train"])
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
    if languages[0] == languages[1] or not all(map(is_folder_name, languages)):
        raise UserError(
            f"{trained.path} translates from {languages[0]!r} to {languages[1]!r}: a corpus needs "
            "two languages whose codes can end the names of its files"
        )
    return Job(
        teacher=digest_of(trained),
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


def _say_result(options: Options, trained: Trained, record: Record) -> None:
    """Print what the folder holds, and the command that trains on it."""
    job = record.job
    origin = f", then the {job.pairs:,} original pairs" if job.references else ""
    say(f"{options.to}: {job.pairs:,} pairs by {record.checkpoint}{origin}")
    if record.empty:
        say(
            f"{record.empty:,} hypotheses are empty, and data=text drops these pairs; a source of "
            f"more than {longest(trained):,} subwords is not translated"
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
        say(f"STEM names your own files: data.valid=DIR/valid for DIR/valid.{source}, ...")


def _typed(key: str, value: object) -> str:
    """Return an override as a user types it."""
    text = str(value)
    if not re.fullmatch(r"[\w/.+%@:-]+", text):
        escaped = text.replace("\\", "\\\\").replace("'", "\\'")
        text = f"'{escaped}'"
    return shlex.quote(f"{key}={text}")


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
