"""`train.py`: train and test the run that a configuration describes."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType

import pytorch_lightning as pl
from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from omegaconf import DictConfig

from simulmt.analysis import summary
from simulmt.data.batches import check_enough
from simulmt.data.manifest import Manifest, manifest
from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.search import GREEDY
from simulmt.files import run_directory as files
from simulmt.files.instances import write_instances
from simulmt.parts import needed_by
from simulmt.parts.builders import build_model, build_objective
from simulmt.programs.choices import Choices, check_choices
from simulmt.programs.data import build_data, say_data
from simulmt.programs.plain import plain
from simulmt.programs.provenance import provenance
from simulmt.programs.start import start_from
from simulmt.saved import checkpoint
from simulmt.saved.checkpoint import passport
from simulmt.saved.trained import Trained
from simulmt.scoring.score import score
from simulmt.scoring.scores import Decoding, Scores
from simulmt.scoring.split_decoder import SplitDecoder
from simulmt.system import ending
from simulmt.system.console import say, watch
from simulmt.system.disk import write_json, write_texts
from simulmt.system.ending import is_first, is_worker
from simulmt.system.memory import enough_memory
from simulmt.training.callbacks import count_parameters, flat
from simulmt.training.compiled import check_compiler
from simulmt.training.datamodule import TranslationData
from simulmt.training.freezing import NOTHING_FROZEN
from simulmt.training.launch import find_environment, reported, run_ranks
from simulmt.training.lines import print_line
from simulmt.training.loggers import open_loggers, show_results, show_samples
from simulmt.training.machine import prepare_machine
from simulmt.training.module import TranslationModule
from simulmt.training.resume import alone_in, check_resume, choose_resume, find_resume, is_done
from simulmt.training.room import make_room
from simulmt.training.run import fit, make_trainer

SHOWN = 50
"""The number of test sentences in the logger's table."""


def train(
    cfg: DictConfig,
    run_directory: str,
    record: Mapping[str, str] = MappingProxyType({}),
    *,
    locked: bool = False,
) -> None:
    """Train and test the run that a configuration of `conf/train.yaml` describes.

    Args:
        cfg: the configuration.
        run_directory: its folder.
        record: the files of Hydra's record, by name.
        locked: True if the sweep that has started this process has locked the run directory.

    Raises:
        UserError: anything a user can put right; mostly before any long work starts.
    """
    ending.handle_signals()
    folder = Path(run_directory)
    with reported():
        choices = check_choices(plain(cfg))
        plan, asked, tokens = choices.plan, choices.config.ckpt_path, choices.data.batch_tokens
        environment = find_environment(plan.nodes, plan.devices)
        plan.check_devices()
        if plan.compile:
            check_compiler(plan.accelerator)
        files.check_own(folder)
        with nullcontext() if locked or is_worker() or not is_first() else alone_in(folder):
            ckpt_path = choose_resume(asked, folder)
            if is_done(ckpt_path, folder, choices.settings):
                return
            if environment is None:
                run_ranks(plan.devices)
                return
            if ckpt_path != asked:
                say("SLURM has started this job again: ckpt_path=last")
            remedy = f"data.batch_tokens (now {tokens:,}), the sizes in model.* or decoding.beam"
            with enough_memory(remedy, plan.accelerator, plan.devices):
                _train(choices, folder, record, environment, find_resume(ckpt_path, folder))


def _train(
    choices: Choices,
    folder: Path,
    record: Mapping[str, str],
    environment: ClusterEnvironment,
    resume: Path | None,
) -> None:
    config, settings, plan = choices.config, choices.settings, choices.plan
    start = checkpoint.load(config.init_from) if config.init_from else None
    pl.seed_everything(config.seed, workers=True, verbose=False)
    corpus, subwords, encoded = build_data(choices.data, config.cache.expanduser())
    prepare_machine(plan.threads)  # from here on freed memory is kept
    described = manifest(corpus, subwords)
    say_data(corpus, subwords, described)
    say(f"run directory: {folder}")
    module = _module(choices, described, subwords, start)
    step = check_resume(resume, settings, described, folder, plan.max_updates) if resume else None
    tokens = choices.data.batch_tokens
    valid, tested = (
        SplitDecoder(corpus.splits[name], encoded[name], subwords, 2 * tokens, how)
        for name, how in (("valid", GREEDY), ("test", choices.search))
    )
    data = TranslationData(encoded["train"], encoded["valid"], tokens, config.seed)
    for name in ("valid", "test"):
        check_enough(len(encoded[name]), plan.processes, name)
    make_room(folder, resume, step)  # after all checks
    _describe(folder, choices, described, record)
    with open_loggers(choices.logger, folder, step, settings) as loggers:
        same = {**settings, "hydra.run.dir": str(folder), "the update of ckpt_path": step}
        trainer = make_trainer(plan, folder, valid, loggers, same, environment)
        chosen = fit(trainer, module, data, resume, folder, plan.average)
        scores = _test(trainer, module, tested, folder, chosen)
    if is_first():  # last: a run that has its scores is finished
        write_json(folder / files.SCORES, scores)


def _module(
    choices: Choices, described: Manifest, subwords: Tokenizer, start: Trained | None
) -> TranslationModule:
    """Return the model with what trains it, and print its size."""
    config, mechanism, plan = choices.config, choices.mechanism, choices.plan
    model = build_model(config.model, mechanism, subwords.vocabulary)
    frozen = start_from(start, model, described, config.init_freeze) if start else NOTHING_FROZEN
    teacher = choices.teacher(described, subwords.vocabulary)
    objective = build_objective(config.objective, teacher)
    say(f"{type(model).__name__} with {mechanism.name}: {count_parameters(model):,} parameters")
    if mechanism.learned and not objective.needs_delays():
        say("lambda=0: latency is not penalised, so the model may wait as long as it likes")
    return TranslationModule(
        model=model,
        objective=objective,
        updates=plan.max_updates,
        optimiser=choices.adam,
        passport=passport(choices.settings, subwords, described),
        seed=config.seed,
        skip=plan.skip,
        compile=plan.compile,
        frozen=frozen,
    )


def _describe(
    folder: Path, choices: Choices, described: Manifest, record: Mapping[str, str]
) -> None:
    """Write configuration, provenance, the traits of the policy and the manifest of the data."""
    if is_first():
        mechanism, settings = choices.mechanism, choices.settings
        write_texts(folder / files.HYDRA, record)
        contents = {
            files.CONFIG: settings,
            files.PROVENANCE: provenance(choices.plan.accelerator, needed_by(settings)),
            files.TRAITS: files.Traits(mechanism.learned, mechanism.offline, mechanism.dials),
            files.MANIFEST: described,  # last: with this file the run has begun
        }
        for name, content in contents.items():
            write_json(folder / name, content)


def _test(
    trainer: pl.Trainer,
    module: TranslationModule,
    decoder: SplitDecoder,
    folder: Path,
    chosen: Path,
) -> Scores:
    """Decode the test set over all processes; write the instances, and print and log the scores.

    Some loggers also show translations, the path of a sentence and the curve of all validations.
    """
    module.to(trainer.strategy.root_device)
    instances = decoder(module.model, module.device, watch)
    scores = score(instances, decoder.split.needs, Decoding.by(decoder.search, chosen, "test"))
    figures = scores["paper", "word"]
    print_line(f"test BLEU {figures['BLEU'].form(1)}, test DAL {figures['DAL'].form()} words")
    if is_first():
        write_instances(folder / files.INSTANCES, instances)
    summary.results(f"{module.model.mechanism.name} on test", scores, instances, chosen, folder)
    step = trainer.global_step - 1
    for logger in trainer.loggers:
        logger.log_metrics(flat(scores, "test"), step)
    show_samples(trainer.loggers, "test/samples", instances[:SHOWN], step)
    show_results(trainer.loggers, folder, step)
    return scores
