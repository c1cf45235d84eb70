"""`train.py`: train and test the run that a configuration describes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from omegaconf import DictConfig

from simulmt.analysis import summary
from simulmt.builders import build_corpus, build_model, build_objective
from simulmt.console import busy, say
from simulmt.data.batches import check_enough
from simulmt.data.corpus import SPLITS, Corpus
from simulmt.data.encoded import EncodedSplit
from simulmt.data.manifest import check_manifest, manifest
from simulmt.data.subwords import Subwords
from simulmt.decoding.search import GREEDY
from simulmt.decoding.split_decoder import SplitDecoder
from simulmt.programs.choices import Choices, check_choices
from simulmt.programs.plain import plain
from simulmt.programs.subwords import subwords_given, train_subwords
from simulmt.saved import checkpoint
from simulmt.saved.checkpoint import load_matching, passport
from simulmt.training import report
from simulmt.training.datamodule import TranslationData
from simulmt.training.files import alone_in
from simulmt.training.loggers import open_loggers
from simulmt.training.machine import prepare_machine
from simulmt.training.module import TranslationModule
from simulmt.training.resume import check_resume, find_resume, make_room
from simulmt.training.run import fit, make_trainer, test


def train(cfg: DictConfig, run_directory: str) -> None:
    """Train and test the run that a configuration of `conf/train.yaml` describes.

    Raises:
        UserError: anything a user can put right; mostly before any long work starts.
    """
    config, folder = plain(cfg), Path(run_directory)
    choices = check_choices(config)
    prepare_machine()
    with alone_in(folder):
        _train(config, folder, choices)


def _train(config: dict[str, Any], folder: Path, choices: Choices) -> None:
    mechanism, plan = choices.mechanism, choices.plan
    start = checkpoint.load(Path(str(config["init_from"]))) if config["init_from"] else None
    resume = find_resume(config["ckpt_path"], folder)
    pl.seed_everything(config["seed"], workers=True, verbose=False)
    corpus, subwords, encoded = build_data(config)
    described = manifest(corpus, subwords)
    report.data(corpus, subwords, folder)
    model = build_model(config["model"], mechanism, subwords.vocabulary)
    if start:
        check_manifest(start.manifest, described, [])
        loaded, total = load_matching(model, start)
        say(f"{loaded} of {total} parameter tensors start from {start.path}")
    report.model(config["model"]["name"], model, config["lambda"])
    resume_at = check_resume(resume, config, described, folder) if resume else None
    tokens, seed = config["data"]["batch_tokens"], config["seed"]
    valid, tested = (
        SplitDecoder(corpus.splits[name], encoded[name], subwords, 2 * tokens, how)
        for name, how in (("valid", GREEDY), ("test", choices.search))
    )
    teacher = choices.teacher(described, subwords.vocabulary)
    module = TranslationModule(
        model=model,
        objective=build_objective(config, teacher),
        updates=plan.max_updates,
        optimiser=choices.adam,
        passport=passport(config, subwords, described),
        seed=seed,
    )
    data = TranslationData(encoded["train"], encoded["valid"], tokens, seed)
    for name in ("valid", "test"):
        check_enough(len(encoded[name]), plan.devices, name)
    make_room(folder, resume, resume_at)  # after all checks
    report.write_description(folder, config, described, mechanism)
    with open_loggers(choices.logger, folder, resume_at, config) as loggers:
        trainer = make_trainer(plan, folder, valid, loggers, config)
        chosen = fit(trainer, module, data, resume, folder, plan.average)
        scores, instances = test(trainer, module, tested, folder, chosen)
        summary.results(f"{mechanism.name} on test", scores, instances, chosen, folder)
        report.log_results(loggers, scores, instances, folder, trainer.global_step - 1)
    report.write_test_scores(folder, scores)  # last: a run that has its scores is finished


def build_data(config: Mapping[str, Any]) -> tuple[Corpus, Subwords, dict[str, EncodedSplit]]:
    """Return the corpus, its subwords (given, cached or trained) and encoded splits."""
    options = config["data"]["subwords"]
    given = subwords_given(options)
    corpus = build_corpus(config["data"])
    # small splits first: their errors then show before the long work
    splits = {name: corpus.splits[name] for name in reversed(SPLITS)}
    with busy("subwords"):
        cache = Path(config["cache"]) / "subwords"
        subwords = given or train_subwords(options, splits["train"].text, cache)
    with busy("encoding"):
        encoded = {n: EncodedSplit.encode(s, subwords) for n, s in splits.items()}
    return corpus, subwords, encoded
