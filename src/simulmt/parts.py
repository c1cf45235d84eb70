"""The parts that a configuration names, built from plain values.

A part's constructor signature is the schema of its group: an option that it does not name, or
that is missing, is an error which lists those it does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from simulmt.attention import Mechanism
from simulmt.data.corpus import Corpus
from simulmt.data.text import read_text
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.search import Search
from simulmt.errors import UserError
from simulmt.models.luong import Luong
from simulmt.models.model import Model
from simulmt.models.rnmt_plus import RnmtPlus
from simulmt.models.transformer import Transformer
from simulmt.options import construct, pick

CORPORA: dict[str, Callable[..., Corpus]] = {"verbfinal": verbfinal, "text": read_text}
OF_DATA = {"name": str, "corpus": str, "subwords": dict, "batch_tokens": int}
"""Options of a `conf/data` group that are not the corpus reader's."""
MODELS: dict[str, type[Model]] = {
    "transformer": Transformer,
    "rnmt_plus": RnmtPlus,
    "luong": Luong,
}


def build_mechanism(config: Mapping[str, Any]) -> Mechanism:
    """The mechanism of a `conf/mechanism` group."""
    options = config["mechanism"]
    if missing := {"name", "schedule", "span", "heads"} - set(options):
        raise UserError(f"mechanism lacks a value for {', '.join(sorted(missing))}")
    return Mechanism(**options)


def build_corpus(options: Mapping[str, Any]) -> Corpus:
    """The corpus of a `conf/data` group."""
    read = pick(CORPORA, options.get("corpus"), "data.corpus")
    ours = set(OF_DATA) - set(inspect.signature(read).parameters)  # the rest is the reader's
    return construct(read, {k: v for k, v in options.items() if k not in ours}, "data")


def build_model(config: Mapping[str, Any], mechanism: Mechanism, vocabulary: int) -> Model:
    """The model of a `conf/model` group."""
    options = dict(config["model"])
    make = pick(MODELS, options.pop("name", None), "model.name")
    given = {"vocabulary": vocabulary, "mechanism": mechanism}
    return construct(make, options, "model", given)


def outline_model(config: Mapping[str, Any], mechanism: Mechanism, vocabulary: int) -> Model:
    """The same without memory for its parameters, which have a shape and no value."""
    try:
        with torch.device("meta"), _Uninitialised():
            return build_model(config, mechanism, vocabulary)
    except RuntimeError as error:  # sizes beyond what can be counted
        raise UserError(f"model: {str(error).splitlines()[0]}; lower its sizes") from None


class _Uninitialised(TorchFunctionMode):
    """Leaves out random initialisation, for which torch loads its compiler on the meta device."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the function, unless it fills a tensor with random values."""
        given = kwargs or {}
        if func in (Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_):
            return given["tensor"] if "tensor" in given else args[0]
        return func(*args, **given)


def build_search(options: Mapping[str, Any], mechanism: Mechanism, usual_beam: int) -> Search:
    """The search of the test set; a beam of None is the usual one, or 1 for what streams."""
    chosen = dict(options)
    if "beam" in chosen and chosen["beam"] is None:
        chosen["beam"] = usual_beam if mechanism.offline else 1
    search = construct(Search, chosen, "decoding")
    if search.beam > 1 and not mechanism.offline:
        raise UserError(
            f"decoding.beam={search.beam} with mechanism={mechanism.name}: it writes before it has "
            "read the whole sentence, and what was written cannot be taken back for a better "
            "hypothesis; set decoding.beam=1 (evaluate.py: beam=1), or take mechanism=soft"
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
