"""The parts that a configuration names, built from plain values.

A part's constructor signature is the schema of its group: an option that it does not name, or
that is missing, is an error which lists those it does.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from simulmt.attention import Mechanism
from simulmt.data.batches import EncodedSplit
from simulmt.data.corpus import Corpus
from simulmt.data.subwords import Subwords
from simulmt.data.text import read_text
from simulmt.data.verbfinal import verbfinal
from simulmt.decoding.search import Search
from simulmt.errors import UserError
from simulmt.models.luong import Luong
from simulmt.models.model import Model
from simulmt.models.rnmt_plus import RnmtPlus
from simulmt.models.transformer import Transformer
from simulmt.objective import Objective
from simulmt.options import check, construct, pick
from simulmt.training import report
from simulmt.training.loggers import CsvOnly, TensorBoard, Wandb, choose_logger
from simulmt.training.optimiser import Adam, make_adam
from simulmt.training.run import Plan

CORPORA: dict[str, Callable[..., Corpus]] = {"verbfinal": verbfinal, "text": read_text}
_OF_DATA = {"name": str, "corpus": str, "subwords": dict, "batch_tokens": int}
MODELS: dict[str, type[Model]] = {
    "transformer": Transformer,
    "rnmt_plus": RnmtPlus,
    "luong": Luong,
}


def check_choices(
    config: Mapping[str, Any], plan: Plan
) -> tuple[Mechanism, Objective, Adam, CsvOnly | TensorBoard | Wandb, Search]:
    """What can be refused before the data are read."""
    mechanism = build_mechanism(config)
    objective = build_objective(config, mechanism, plan)
    adam = make_adam(config["optim"])
    logger = choose_logger(config["logger"])
    ours = {name: value for name, value in config["data"].items() if name in _OF_DATA}
    check(ours, _OF_DATA, "data")
    if ours["batch_tokens"] < 1:
        raise UserError(f"data.batch_tokens is {ours['batch_tokens']}; it must be at least 1")
    if not isinstance(config["seed"], int) or config["seed"] < 0:
        raise UserError(f"seed is {config['seed']!r}; it must be a whole number from 0")
    with torch.device("meta"):
        model = build_model(config, mechanism, vocabulary=1)
    search = build_search(config["decoding"], mechanism, model.usual_beam)
    return mechanism, objective, adam, logger, search


def build_mechanism(config: Mapping[str, Any]) -> Mechanism:
    """The mechanism of a `conf/mechanism` group."""
    options = config["mechanism"]
    if missing := {"name", "schedule", "span", "heads"} - set(options):
        raise UserError(f"mechanism lacks a value for {', '.join(sorted(missing))}")
    return Mechanism(**options)


def build_corpus(options: Mapping[str, Any]) -> Corpus:
    """The corpus of a `conf/data` group."""
    read = pick(CORPORA, options["corpus"], "data.corpus")
    ours = set(_OF_DATA) - set(inspect.signature(read).parameters)  # the rest is the reader's
    return construct(read, {k: v for k, v in options.items() if k not in ours}, "data")


def build_data(config: Mapping[str, Any]) -> tuple[Corpus, Subwords, dict[str, EncodedSplit]]:
    """Corpus, its subword model (from the cache where there is one), and all splits as ids."""
    corpus = build_corpus(config["data"])
    train_split = corpus.splits["train"]
    text = itertools.chain(train_split.sources, train_split.targets)
    with report.busy("subwords"):
        given = {"sentences": text, "cache": Path(config["cache"]) / "subwords", "status": False}
        subwords = construct(Subwords.train, config["data"]["subwords"], "data.subwords", given)
    with report.busy("encoding"):
        encoded = {n: EncodedSplit.encode(s, subwords) for n, s in corpus.splits.items()}
    return corpus, subwords, encoded


def build_model(config: Mapping[str, Any], mechanism: Mechanism, vocabulary: int) -> Model:
    """The model of a `conf/model` group."""
    options = dict(config["model"])
    make = pick(MODELS, options.pop("name"), "model.name")
    given = {"vocabulary": vocabulary, "mechanism": mechanism}
    return construct(make, options, "model", given)


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


def build_objective(config: Mapping[str, Any], mechanism: Mechanism, plan: Plan) -> Objective:
    """The objective, refused where its latency weights would do nothing."""
    objective = construct(Objective, config["objective"], "objective")
    if objective.wants_alpha and not mechanism.learned:
        raise UserError(
            f"lambda={objective.latency_weight} lambda_var={objective.variance_weight} with "
            f"mechanism={mechanism.name}: its schedule is fixed, so there is no expected delay to "
            "weigh; set both to 0, or choose a learned mechanism such as mma_il"
        )
    in_force = objective.hold + objective.warmup if objective.wants_alpha else 0
    if plan.patience is not None and plan.patience * plan.validate_every < in_force:
        raise UserError(
            f"trainer.patience={plan.patience} validations of {plan.validate_every} updates could "
            f"end the run before lambda is in force (update {in_force}); raise it"
        )
    if objective.strength(plan.max_updates - 1) < 1:
        raise UserError(
            f"lambda is held back for objective.hold={objective.hold} updates, then grown over "
            f"objective.warmup={objective.warmup}: it would not reach its value within "
            f"trainer.max_updates={plan.max_updates}; lower them"
        )
    return objective


def pick_device(choice: str) -> torch.device:
    """`auto` is the GPU if there is one."""
    if choice not in ("auto", "cpu", "cuda"):
        raise UserError(f"device is {choice!r}; choose auto, cpu or cuda")
    if choice == "cuda" and not torch.cuda.is_available():
        raise UserError("device=cuda, but no GPU was found; choose cpu or auto")
    cuda = choice != "cpu" and torch.cuda.is_available()
    return torch.device("cuda" if cuda else "cpu")
