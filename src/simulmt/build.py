"""Composition root: the only place that sees a configuration. It builds, then hands over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from simulmt.data.batches import EncodedSplit
from simulmt.data.manifest import check_manifest, manifest
from simulmt.decoding.instance import write_instances
from simulmt.decoding.search import GREEDY
from simulmt.errors import UserError
from simulmt.options import construct, pick
from simulmt.parts import (
    build_corpus,
    build_data,
    build_mechanism,
    build_model,
    build_search,
    check_choices,
    pick_device,
)
from simulmt.scoring import score, write_scores
from simulmt.training import report
from simulmt.training.callbacks import Decoder
from simulmt.training.checkpoint import (
    load_matching,
    passport,
    read_checkpoint,
    read_subwords,
    run_checkpoint,
    weights_of,
)
from simulmt.training.datamodule import TranslationData
from simulmt.training.loggers import open_loggers
from simulmt.training.module import TranslationModule
from simulmt.training.resume import check_resume, find_resume, make_room
from simulmt.training.run import Plan, fit, make_trainer, test


def train(cfg: DictConfig, run_directory: str, *, multirun: bool) -> None:
    """Train and test what a configuration of `conf/train.yaml` describes.

    Raises:
        UserError: anything a user can put right, before any long work starts.
    """
    config = plain(cfg)
    plan = construct(Plan, config["trainer"], "trainer")
    if multirun and not plan.single:
        raise UserError(
            "several processes inside a multirun (trainer=ddp, or trainer.devices above 1): each "
            "would start the whole sweep again. Run `python train.py trainer=ddp ...` once for "
            "each choice, or the sweep with trainer.devices=1"
        )
    mechanism, objective, adam, logger, search = check_choices(config, plan)
    start = run_checkpoint(Path(config["init_from"])) if config["init_from"] else None
    folder = Path(run_directory)
    resume = find_resume(config["ckpt_path"], folder)

    pl.seed_everything(config["seed"], workers=True, verbose=False)
    corpus, subwords, encoded = build_data(config)
    described = manifest(corpus, subwords)
    report.data(corpus, subwords, folder)
    model = build_model(config, mechanism, len(subwords))
    if start:
        checkpoint = read_checkpoint(start)
        check_manifest(checkpoint["simulmt"]["manifest"], described, [])
        taken, of = load_matching(model, checkpoint, str(start))
        report.say(f"{taken} of {of} parameter tensors start from {start}")
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
        trainer = make_trainer(plan, folder, valid, loggers)
        chosen = fit(trainer, module, data, resume, folder, plan.average)
        scores, instances = test(trainer, module, tested, folder)
        report.log_scores(loggers, scores, trainer.global_step - 1)
    report.results(f"{mechanism.name} on test", scores, instances, chosen, folder)


def evaluate(cfg: DictConfig) -> None:
    """Decode and score a split with a checkpoint, as `train` did at its end.

    Raises:
        UserError: anything a user can put right.
    """
    options = plain(cfg)
    split = options["split"]
    path = run_checkpoint(Path(options["checkpoint"]))
    checkpoint = read_checkpoint(path)
    config = checkpoint["simulmt"]["config"]
    if options["data_root"]:
        config["data"]["root"] = options["data_root"]
    subwords = read_subwords(checkpoint)
    mechanism = build_mechanism(config)
    model = build_model(config, mechanism, len(subwords))
    then: dict[str, Any] = config["decoding"]
    asked = {name: options[name] for name in then if options[name] is not None}
    search = build_search(then | asked, mechanism, model.usual_beam)
    if search.beam == 1 and "length_penalty" in asked:
        raise UserError(
            f"length_penalty={asked['length_penalty']} with a beam of 1: greedy decoding compares "
            "no lengths; set beam above 1 (for a mechanism that reads the whole sentence first)"
        )
    corpus = build_corpus(config["data"])
    chosen = pick(corpus.splits, split, "split")
    check_manifest(checkpoint["simulmt"]["manifest"], manifest(corpus, subwords), [split])

    model.load_state_dict(weights_of(checkpoint))
    device = pick_device(options["device"])
    model.to(device).eval()
    tokens = options["batch_tokens"] or 2 * config["data"]["batch_tokens"]
    decoder = Decoder(chosen, EncodedSplit.encode(chosen, subwords), subwords, tokens, search)
    instances = decoder(model, device, watch=report.watch)
    scores = score(instances, chosen.needs) | {"decoding": search.described}

    inside_run = path.parent.name == "checkpoints"
    home = path.parent.parent if inside_run else path.parent
    searched = [f"{name}{value}" for name, value in asked.items()]
    folder = home / "evaluation" / "-".join([split, path.stem, *searched])
    folder.mkdir(parents=True, exist_ok=True)
    write_instances(folder / "instances.log", instances)
    write_scores(folder / "scores.json", scores)
    report.results(f"{mechanism.name} on {split}", scores, instances, path, folder)


def plain(cfg: DictConfig) -> dict[str, Any]:
    """The resolved configuration as plain Python values."""
    try:
        resolved = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        key = getattr(error, "full_key", None)
        raise UserError(f"{key or 'configuration'}: {str(error).splitlines()[0]}") from None
    assert isinstance(resolved, dict)
    resolved.pop("experiments", None)
    return {str(key): value for key, value in resolved.items()}
