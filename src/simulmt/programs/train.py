"""`train.py`: build what a configuration describes, then hand over."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from omegaconf import DictConfig

from simulmt import checkpoint
from simulmt.attention import Mechanism
from simulmt.checkpoint import load_matching, passport
from simulmt.data.batches import EncodedSplit
from simulmt.data.corpus import Corpus
from simulmt.data.manifest import check_manifest, manifest
from simulmt.data.subwords import Subwords
from simulmt.decoding.search import GREEDY, Search
from simulmt.errors import UserError
from simulmt.objective import Objective
from simulmt.options import check, construct
from simulmt.parts import (
    OF_DATA,
    build_corpus,
    build_mechanism,
    build_model,
    build_search,
    outline_model,
)
from simulmt.programs.plain import plain
from simulmt.training import report
from simulmt.training.callbacks import Decoder
from simulmt.training.datamodule import TranslationData
from simulmt.training.files import alone_in
from simulmt.training.loggers import CsvOnly, TensorBoard, Wandb, choose_logger, open_loggers
from simulmt.training.module import TranslationModule
from simulmt.training.optimiser import Adam, make_adam
from simulmt.training.resume import check_resume, find_resume, make_room
from simulmt.training.run import Plan, fit, make_trainer, test

OF_SWEEP = {"restart": bool, "retries": int}


def train(cfg: DictConfig, run_directory: str) -> None:
    """Train and test what a configuration of `conf/train.yaml` describes.

    Raises:
        UserError: anything a user can put right, before any long work starts.
    """
    config, folder = plain(cfg), Path(run_directory)
    plan = construct(Plan, config["trainer"], "trainer")
    chosen = check_choices(config, plan)
    with alone_in(folder):
        _train(config, folder, plan, *chosen)


def _train(
    config: dict[str, Any],
    folder: Path,
    plan: Plan,
    mechanism: Mechanism,
    objective: Objective,
    adam: Adam,
    logger: CsvOnly | TensorBoard | Wandb,
    search: Search,
) -> None:
    start = checkpoint.load(Path(str(config["init_from"]))) if config["init_from"] else None
    resume = find_resume(config["ckpt_path"], folder)
    pl.seed_everything(config["seed"], workers=True, verbose=False)
    corpus, subwords, encoded = build_data(config)
    described = manifest(corpus, subwords)
    report.data(corpus, subwords, folder)
    model = build_model(config, mechanism, len(subwords))
    if start:
        check_manifest(start.manifest, described, [])
        taken, of = load_matching(model, start)
        report.say(f"{taken} of {of} parameter tensors start from {start.path}")
    report.model(config["model"]["name"], mechanism.name, model)
    resume_at = check_resume(resume, config, described) if resume else None
    make_room(folder, resume)
    report.write_manifest(folder / "manifest.json", described)

    tokens, seed = config["data"]["batch_tokens"], config["seed"]
    valid, tested = (
        Decoder(corpus.splits[name], encoded[name], subwords, 2 * tokens, how)
        for name, how in (("valid", GREEDY), ("test", search))
    )
    module = TranslationModule(
        model=model,
        objective=objective,
        optimiser=adam,
        passport=passport(config, subwords, described),
        seed=seed,
    )
    data = TranslationData(encoded["train"], encoded["valid"], tokens, seed)
    with open_loggers(logger, folder, resume_at, config) as loggers:
        trainer = make_trainer(plan, folder, valid, loggers, config)
        chosen = fit(trainer, module, data, resume, folder, plan.average)
        scores, instances = test(trainer, module, tested, folder)
        report.log_scores(loggers, scores, trainer.global_step - 1)
    report.results(f"{mechanism.name} on test", scores, instances, chosen, folder)
    report.write_test_scores(folder, scores)  # last: a run that has its scores is finished


def check_choices(
    config: Mapping[str, Any], plan: Plan
) -> tuple[Mechanism, Objective, Adam, CsvOnly | TensorBoard | Wandb, Search]:
    """What can be refused before the data are read."""
    mechanism = build_mechanism(config)
    objective = build_objective(config, mechanism, plan)
    adam = make_adam(config["optim"])
    logger = choose_logger(config["logger"])
    ours = {name: value for name, value in config["data"].items() if name in OF_DATA}
    check(ours, OF_DATA, "data")
    if ours["batch_tokens"] < 1:
        raise UserError(f"data.batch_tokens is {ours['batch_tokens']}; it must be at least 1")
    if not isinstance(config["seed"], int) or config["seed"] < 0:
        raise UserError(f"seed is {config['seed']!r}; it must be a whole number from 0")
    check(config["sweep"], OF_SWEEP, "sweep")
    if config["sweep"]["retries"] < 0:
        raise UserError(f"sweep.retries is {config['sweep']['retries']}; it must be at least 0")
    model = outline_model(config, mechanism, vocabulary=1)
    search = build_search(config["decoding"], mechanism, model.usual_beam)
    return mechanism, objective, adam, logger, search


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
