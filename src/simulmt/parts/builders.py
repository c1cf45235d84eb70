"""Builders of objects from the plain values of a configuration.

Names are looked up in tables, which other packages may extend. A part's signature is the schema of
its group: an unknown or missing option is an error that lists the part's options.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from simulmt.attention import Mechanism
from simulmt.attention.clock import ClockRecipe
from simulmt.attention.mechanism import Heads, Unit
from simulmt.attention.schedule import ScheduleRecipe
from simulmt.attention.schedules import SCHEDULES
from simulmt.attention.scores import SCORES
from simulmt.attention.spans import SPANS
from simulmt.data.corpus import Corpus
from simulmt.data.documents import Documents
from simulmt.data.huggingface import read_huggingface
from simulmt.data.reader import read_text
from simulmt.data.subwords import SubwordOptions
from simulmt.data.verbfinal import verbfinal
from simulmt.data.windows import WindowOptions
from simulmt.data.writing_options import WritingOptions
from simulmt.decoding.policies import OWN, POLICIES
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import Search
from simulmt.decoding.writing import Writing
from simulmt.errors import UserError
from simulmt.models.eight_bit import Precision
from simulmt.models.luong import Luong
from simulmt.models.model import Model
from simulmt.models.rnmt_plus import RnmtPlus
from simulmt.models.transformer import Transformer
from simulmt.models.vocabulary import Vocabulary
from simulmt.objective import OBJECTIVES, Objective
from simulmt.objective.teacher import Teacher
from simulmt.options import Config, Tokens, asked_of, check_options, construct, construct_own, pick

T = TypeVar("T")
USUAL = "usual"
"""Stands for the model's usual score."""
UNITS = {"source_unit": Unit, "target_unit": Unit}
"""Options of the mechanisms that stream."""
SMALLEST = Vocabulary(size=4)
"""For models that are built only to check their options."""

CORPORA: dict[str, Callable[..., Corpus]] = {
    "verbfinal": verbfinal,
    "text": read_text,
    "huggingface": read_huggingface,
}
OF_DATA: Config = {
    "name": str,
    "corpus": str,
    "subwords": dict,
    "batch_tokens": Tokens,
    **asked_of(WindowOptions),
    **asked_of(WritingOptions),
}
"""Options of a `conf/data` group that are not the corpus reader's."""
MODELS: dict[str, type[Model]] = {"transformer": Transformer, "rnmt_plus": RnmtPlus, "luong": Luong}


def build_mechanism(options: Config) -> Mechanism:
    """Return the mechanism of a `conf/mechanism` group.

    Each option goes to the part whose signature names it.

    Raises:
        UserError: an unknown name, or an option that is missing, unknown or out of range.
    """
    schedule: Callable[..., ClockRecipe | ScheduleRecipe] = pick(
        SCHEDULES, options.get("schedule"), "mechanism.schedule"
    )
    span = pick(SPANS, options.get("span"), "mechanism.span")
    asked = {"name": str, "schedule": str, "span": str, "heads": Heads}
    if span.takes_score:
        asked["score"] = str
    units = {} if getattr(schedule, "offline", False) else UNITS
    check_options(options, asked_of(schedule) | asked_of(span) | asked | units, "mechanism")
    where = f"mechanism={options['name']}"
    return Mechanism(
        schedule=construct_own(schedule, options, where),
        span=construct_own(span, options, where),
        score=pick({USUAL: None, **SCORES}, options.get("score", USUAL), "mechanism.score"),
        heads=options["heads"],
        name=str(options["name"]),
        **{name: options[name] for name in units},
    )


@dataclass(frozen=True)
class Data:
    """A `conf/data` group.

    Attributes:
        corpus: The name of the reader in `CORPORA`.
        subwords: The options of the subwords.
        batch_tokens: The token budget of a batch.
        reader: The options of the reader.
        documents: How sentences become documents.
        writing: What a word is, on either side.
        windows: What the training pairs of documents look like.
    """

    corpus: str
    subwords: SubwordOptions
    batch_tokens: int
    reader: Config
    documents: Documents
    writing: Writing
    windows: WindowOptions

    @classmethod
    def of(cls, options: Config) -> "Data":
        """Return the checked options of a group; nothing is read.

        Raises:
            UserError: an unknown corpus, or an option that is missing, unknown or out of range.
        """
        make, shape = pick(CORPORA, options.get("corpus"), "data.corpus"), asked_of(Documents)
        asked = asked_of(make, ["cache", "documents", "writing"])
        check_options(options, {**OF_DATA, **shape, **asked}, "data")
        reader = {name: value for name, value in options.items() if name in asked}
        subwords = construct(SubwordOptions, options["subwords"], "data.subwords")
        fixed = options["corpus"], subwords, options["batch_tokens"]
        documents = construct_own(Documents, options, "data")
        windows = construct_own(WindowOptions, options, "data")
        writing = construct_own(WritingOptions, options, "data").of(reader.get("target", ""))
        takes = "writing" in inspect.signature(make).parameters
        if (writing.source or writing.target) and not takes:
            why = f"data.characters with data.corpus={fixed[0]}, which has words between spaces"
            raise UserError(f"{why}: set data.characters=[]")
        return cls(*fixed, reader, documents, writing, windows)

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the size asked for; the smallest one if the subwords are given."""
        return SMALLEST if self.subwords.model else Vocabulary(self.subwords.size)

    def read(self, root: Path | None = None, cache: Path | None = None) -> Corpus:
        """Return the corpus.

        Args:
            root: the folder of the files, if they have moved.
            cache: the folder in which a reader may keep text; None to hold all of it in memory.
        """
        place = "path" if "path" in self.reader else "root"
        if root and place not in self.reader:
            raise UserError(f"data_root={root}: the data of this model are generated; leave it out")
        moved: dict[str, str | None] = {place: str(root)} if root else {}
        if root and self.reader.get("revision"):
            moved["revision"] = None  # a folder has none; the manifest tells other text
        make = CORPORA[self.corpus]
        documents = self.documents.documents and not self.documents.join
        known = {"cache": cache, "documents": documents, "writing": self.writing}
        given = {n: v for n, v in known.items() if n in inspect.signature(make).parameters}
        return self.documents.of(construct(make, {**self.reader, **moved}, "data", given))


def build_corpus(options: Config, root: Path | None = None, cache: Path | None = None) -> Corpus:
    """Return the corpus of a `conf/data` group; see `Data`."""
    return Data.of(options).read(root, cache)


def build_model(options: Config, mechanism: Mechanism, vocabulary: Vocabulary) -> Model:
    """Return the model of a `conf/model` group."""
    make, own = _named(options, MODELS, "model")
    return construct(make, own, "model", {"vocabulary": vocabulary, "mechanism": mechanism})


def outline_model(
    options: Config, mechanism: Mechanism, vocabulary: Vocabulary = SMALLEST
) -> Model:
    """Return the same model on the meta device: its parameters have shapes, but no memory."""
    with torch.device("meta"), _Uninitialised():
        return build_model(options, mechanism, vocabulary)


def build_objective(
    options: Config, teacher: Teacher | None = None, taught: bool = False
) -> Objective:
    """Return the objective of a `conf/objective` group.

    Args:
        options: the group.
        teacher: adds terms; None for none, or as long as it is not built.
        taught: True to check that the objective takes a teacher.

    Raises:
        UserError: an unknown name, an option that is missing, unknown or out of range, or a
            teacher that the objective does not take.
    """
    make, own = _named(options, OBJECTIVES, "objective")
    takes_teacher = "teacher" in inspect.signature(make).parameters
    if (teacher or taught) and not takes_teacher:
        raise UserError(f"objective.name={options['name']} takes no teacher; choose teacher=none")
    return construct(make, own, "objective", {"teacher": teacher} if takes_teacher else {})


def other_policy(options: Config) -> Config:
    """Return the options of a policy; empty for the model's own decision."""
    return {} if options == {"name": OWN} else options


def build_policy(options: Config) -> Policy | None:
    """Return the policy of a `conf/policy` group; None for the model's own decision.

    Raises:
        UserError: an unknown name, or an option that is missing, unknown or out of range.
    """
    if not other_policy(options):
        return None
    make, own = _named(options, POLICIES, "policy")
    return construct(make, own, "policy")


def _named(options: Config, table: Mapping[str, T], group: str) -> tuple[T, Config]:
    """Return the part that a group names, and the other options of the group."""
    others = {key: value for key, value in options.items() if key != "name"}
    return pick(table, options.get("name"), f"{group}.name", ", or add plugins=[PACKAGE]"), others


class _Uninitialised(TorchFunctionMode):
    """Skips random initialisation, for which torch loads its compiler on the meta device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, unless it fills a tensor with random values."""
        given = kwargs or {}
        if func in (Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_):
            return given["tensor"] if "tensor" in given else args[0]
        return func(*args, **given)


def build_search(options: Config, model: Model) -> Search:
    """Return the search for the test set, from the `decoding` group.

    A beam of None means the model's usual beam, or 1 for a mechanism that streams.
    """
    options, mechanism = dict(options), model.mechanism
    if "beam" in options and options["beam"] is None:
        options["beam"] = model.usual_beam if mechanism.offline else 1
    search = construct(Search, options, "decoding")
    if search.beam > 1 and not mechanism.offline:
        raise UserError(
            f"decoding.beam={search.beam} with mechanism={mechanism.name}: the mechanism writes "
            "before it has read the whole sentence, and written words cannot be taken back; set "
            "decoding.beam=1 (beam=1 to evaluate or translate), or take mechanism=soft"
        )
    return search


def pick_device(choice: str, weights: Precision = "float32") -> torch.device:
    """Return a device; `auto` is the GPU if there is one. Rounded weights are for a CPU."""
    there = torch.cuda.is_available()
    if weights == "int8" and choice == "cuda":
        raise UserError(
            f"weights={weights} with device={choice}, a GPU: set device=cpu, or leave out weights"
        )
    if choice == "cuda" and not there:
        raise UserError("device=cuda, but no GPU was found; choose cpu or auto")
    auto = "cuda" if there and weights == "float32" else "cpu"
    devices = {"auto": auto, "cpu": "cpu", "cuda": "cuda"}
    return torch.device(pick(devices, choice, "device"))
