"""Builders of objects from the plain values of a configuration.

Names are looked up in tables, which another package may extend. A part's signature is the schema of
its group: an unknown or missing option is an error that lists the part's options.
"""

import inspect
from collections.abc import Callable, Mapping
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
from simulmt.data.huggingface import read_huggingface
from simulmt.data.reader import read_text
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.policies import OWN, POLICIES
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import Search
from simulmt.errors import UserError
from simulmt.models.luong import Luong
from simulmt.models.model import Model
from simulmt.models.rnmt_plus import RnmtPlus
from simulmt.models.transformer import Transformer
from simulmt.objective import OBJECTIVES, Objective
from simulmt.objective.teacher import Teacher
from simulmt.options import (
    Config,
    Tokens,
    asked_of,
    check,
    construct,
    pick,
)
from simulmt.vocabulary import Vocabulary

T = TypeVar("T")
USUAL = "usual"
"""Stands for the model's usual score."""
OF_MECHANISM = {"name": str, "schedule": str, "span": str, "heads": Heads}
"""Options of every `conf/mechanism` group; the others belong to its parts."""
UNITS = {"source_unit": Unit, "target_unit": Unit}
"""Options of those that stream."""
SMALLEST = Vocabulary(size=4)
"""For models that are built only to check their options."""

CORPORA: dict[str, Callable[..., Corpus]] = {
    "verbfinal": verbfinal,
    "text": read_text,
    "huggingface": read_huggingface,
}
OF_DATA = {"name": str, "corpus": str, "subwords": dict, "batch_tokens": Tokens}
"""Options of a `conf/data` group that are not the corpus reader's."""
MODELS: dict[str, type[Model]] = {
    "transformer": Transformer,
    "rnmt_plus": RnmtPlus,
    "luong": Luong,
}


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
    scored = {"score": str} if span.takes_score else {}
    streams = {} if getattr(schedule, "offline", False) else UNITS
    check(
        options, asked_of(schedule) | asked_of(span) | scored | OF_MECHANISM | streams, "mechanism"
    )
    return Mechanism(
        schedule=_part(schedule, options),
        span=_part(span, options),
        score=pick({USUAL: None, **SCORES}, options.get("score", USUAL), "mechanism.score"),
        heads=options["heads"],
        name=str(options["name"]),
        **{name: options[name] for name in streams},
    )


def _part(make: Callable[..., T], options: Config) -> T:
    """Return a schedule or a span with the options that its signature names."""
    own = {key: options[key] for key in asked_of(make) if key in options}
    return construct(make, own, f"mechanism={options['name']}")


def build_corpus(options: Config, root: Path | None = None, cache: Path | None = None) -> Corpus:
    """Return the corpus of a `conf/data` group.

    Args:
        options: the group.
        root: the folder of the files, if they have moved.
        cache: the folder in which a reader may keep text; None to hold all of it in memory.

    Raises:
        UserError: an unknown corpus, or an option that is missing, unknown or out of range.
    """
    if root is not None:
        options = {**options, "path" if "path" in options else "root": str(root)}
    read, own, given = _reader(options, cache)
    return construct(read, own, "data", given)


def check_data(options: Config) -> None:
    """Refuse a `conf/data` group with a bad option, before anything is read.

    Raises:
        UserError: as for `build_corpus`.
    """
    check({name: options[name] for name in OF_DATA if name in options}, OF_DATA, "data")
    read, own, given = _reader(options, None)
    check(own, asked_of(read, given), "data")


def _reader(
    options: Config, cache: Path | None
) -> tuple[Callable[..., Corpus], dict[str, Any], dict[str, Any]]:
    """Return the function that reads the corpus of a `conf/data` group, and its arguments.

    These are the options that the user chose, and the cache if the function takes one.
    """
    read = pick(CORPORA, options.get("corpus"), "data.corpus")
    named = set(inspect.signature(read).parameters)
    own = {name: value for name, value in options.items() if name not in set(OF_DATA) - named}
    return read, own, {"cache": cache} if "cache" in named else {}


def build_model(options: Config, mechanism: Mechanism, vocabulary: Vocabulary) -> Model:
    """Return the model of a `conf/model` group."""
    options = dict(options)
    make = pick(MODELS, options.pop("name", None), "model.name")
    given = {"vocabulary": vocabulary, "mechanism": mechanism}
    return construct(make, options, "model", given)


def outline_model(
    options: Config, mechanism: Mechanism, vocabulary: Vocabulary = SMALLEST
) -> Model:
    """Return the same model on the meta device: its parameters have shapes, but no memory."""
    with torch.device("meta"), _Uninitialised():
        return build_model(options, mechanism, vocabulary)


def build_objective(config: Config, teacher: Teacher | None = None) -> Objective:
    """The objective of a `conf/objective` group.

    lambda, lambda_var and the teacher, which are no options of the group, go to an objective whose
    signature names them.

    Raises:
        UserError: an unknown name, an option that is missing, unknown or out of range, or a weight
            or a teacher that the objective does not take.
    """
    options = dict(config["objective"])
    make = pick(OBJECTIVES, options.pop("name", None), "objective.name")
    named = inspect.signature(make).parameters
    offered = {
        "lambda_": float(config["lambda"]),
        "lambda_var": float(config["lambda_var"]),
        "teacher": teacher,
    }
    for name, value in offered.items():
        if name not in named and value:
            option = name.rstrip("_")
            raise UserError(
                f"objective={config['objective']['name']} takes no {option}; leave {option} out, "
                "or choose objective=latency_augmented"
            )
    return construct(make, options, "objective", {k: v for k, v in offered.items() if k in named})


def other_policy(options: Config) -> Config:
    """Return the options of a policy; empty for the model's own decision."""
    return {} if options == {"name": OWN} else options


def build_policy(options: Config) -> Policy | None:
    """Return the policy of a `conf/policy` group; None for the model's own decision.

    Raises:
        UserError: an unknown name, or an option that is missing, unknown or out of range.
    """
    options = dict(options)
    name = options.pop("name", None)
    if name == OWN and not options:
        return None
    make = pick(POLICIES, name, "policy.name")
    return construct(make, options, "policy")


class _Uninitialised(TorchFunctionMode):
    """Skips random initialisation: on the meta device torch would load its compiler for it."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
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
            "before it has read the whole sentence, and what was written cannot be taken back for "
            "a better hypothesis; set decoding.beam=1 (beam=1 to evaluate), or take mechanism=soft"
        )
    return search


def pick_device(choice: str) -> torch.device:
    """`auto` is the GPU if there is one."""
    if choice not in ("auto", "cpu", "cuda"):
        raise UserError(f"device is {choice!r}; choose auto, cpu or cuda")
    if choice == "cuda" and not torch.cuda.is_available():
        raise UserError("device=cuda, but no GPU was found; choose cpu or auto")
    cuda = choice != "cpu" and torch.cuda.is_available()
    return torch.device("cuda" if cuda else "cpu")
