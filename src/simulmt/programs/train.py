"""`train.py`: train and test the run that a configuration describes."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import shorten
from types import MappingProxyType

import pytorch_lightning as pl
from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from omegaconf import DictConfig
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import Logger

from simulmt.analysis import summary
from simulmt.analysis.studies.faithfulness import known_faithfulness
from simulmt.data.batches import check_enough
from simulmt.data.manifest import check_manifest
from simulmt.decoding.search import GREEDY
from simulmt.files import run_directory as files
from simulmt.files.instances import write_instances
from simulmt.models.model import Model
from simulmt.parts import needed_by
from simulmt.parts.builders import build_model, build_objective
from simulmt.parts.configuration import Configuration
from simulmt.programs.data import RunData
from simulmt.programs.plain import plain
from simulmt.programs.provenance import provenance
from simulmt.programs.run_spec import RunSpec
from simulmt.programs.targets import TARGET, make_target
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained
from simulmt.scoring.score import score
from simulmt.scoring.scores import Decoding, Scores
from simulmt.scoring.split_decoder import SplitDecoder
from simulmt.system import ending
from simulmt.system.console import say, watch
from simulmt.system.disk import write_json, write_text
from simulmt.system.memory import enough_memory
from simulmt.training import resume
from simulmt.training.callbacks import count_parameters, flat_scores
from simulmt.training.datamodule import TranslationData
from simulmt.training.launch import find_environment, reported, run_ranks
from simulmt.training.loggers import boards, open_loggers
from simulmt.training.machine import prepare_machine
from simulmt.training.module import Frozen, TranslationModule
from simulmt.training.progress import print_line
from simulmt.training.run import fit, make_trainer

SHOWN = 50
"""The number of test sentences in the logger's table."""


def train(
    cfg: DictConfig,
    run_directory: str,
    record: Mapping[str, str] = MappingProxyType({}),
    typed: Sequence[str] | None = None,
) -> None:
    """Train and test the run that a configuration of `conf/train.yaml` describes.

    Args:
        cfg: the configuration.
        run_directory: its folder.
        record: the files of Hydra's record, by name.
        typed: the overrides on the command line, as for `RunSpec.of`.

    Raises:
        UserError: a mistake that a user can correct; mostly before any long work starts.
    """
    ending.handle_signals()
    folder = Path(run_directory)
    with reported():
        run = RunSpec.of(plain(cfg), typed)
        plan, asked = run.plan, run.config.ckpt_path
        ending.handle_signals(lambda: resume.remedy(folder, plan.validate_every))
        environment = find_environment(plan.nodes, plan.devices)
        plan.check_machine(starts_ranks=environment is None)
        files.check_own(folder)
        locks = ending.is_first() and not ending.is_worker()
        with resume.alone_in(folder) if locks else nullcontext():
            ckpt_path = "last" if resume.is_requeued(folder) else asked
            state = resume.read_state(folder, run.config.plain) if ckpt_path == "last" else None
            if state and state.kind == "finished":
                say(
                    f"{folder} is already finished: increase trainer.max_updates (or "
                    f"trainer.patience) to continue, with hydra.run.dir={folder} unless the run "
                    "has a name; or drop ckpt_path to retrain"
                )
                return
            if environment is None:
                run_ranks(plan.devices)
                return
            if ckpt_path != asked:
                say("SLURM has restarted this job: the run resumes, as with ckpt_path=last")
            tokens = f"data.batch_tokens (now {run.data.batch_tokens:,})"
            remedy = f"{tokens}, the sizes in model.* or decoding.beam"
            with enough_memory(remedy, plan.accelerator, plan.devices):
                _train(run, folder, record, environment, resume.find_resume(ckpt_path, folder))


def _train(
    run: RunSpec,
    folder: Path,
    record: Mapping[str, str],
    environment: ClusterEnvironment,
    ckpt: Path | None,
) -> None:
    config, plan, tokens = run.config, run.plan, run.data.batch_tokens
    added = (config.callbacks or {}).items()
    callbacks = [make_target(options, f"callbacks.{name}", Callback) for name, options in added]
    extra = None
    if config.logger.get(TARGET):
        extra = make_target(config.logger, "logger", Logger, later=True)
    start = checkpoint.load(config.init_from) if config.init_from else None
    pl.seed_everything(config.seed, workers=True, verbose=False)
    data = RunData.read(run.data, config.cache)
    prepare_machine(plan.threads)  # from here on freed memory is kept
    data.describe()
    say(f"run directory: {folder}")
    module = _module(run, data, start)
    batches = TranslationData(data.train, data.encoded["valid"], tokens, config.seed)
    ranks, step = plan.nodes * plan.devices, None
    if ckpt:
        order = batches.order(plan.accumulate, ranks).settings
        step = resume.check_resume(ckpt, config.plain, data.manifest, folder, plan, order)
    valid = data.decoder("valid", 2 * tokens, GREEDY)
    tested = data.decoder("test", 2 * tokens, run.search)
    for name in ("valid", "test"):
        check_enough(len(data.encoded[name]), ranks, name)
    if ending.is_first():  # after all checks
        resume.make_room(folder, ckpt, step)
        _describe(folder, run, data, record)
    with open_loggers(extra, folder, step, config) as loggers:
        same = {**config.plain, "hydra.run.dir": str(folder), "the update of ckpt_path": step}
        same |= {"manifest": asdict(data.manifest), "file": resume.used_models(config.plain)}
        trainer = make_trainer(plan, folder, valid, loggers, callbacks, same, environment)
        if not (chosen := fit(trainer, module, batches, ckpt)):
            return
        scores = _test(trainer, module, tested, chosen)
    if ending.is_first():  # last: a run that has its scores is finished
        write_json(folder / files.SCORES, scores)


def _module(run: RunSpec, data: RunData, start: Trained | None) -> TranslationModule:
    """Return the model with what trains it, and print its size."""
    config, mechanism = run.config, run.mechanism
    model = build_model(config.model, mechanism, data.subwords.vocabulary)
    if start is not None:
        check_manifest(start.manifest, data.manifest, [])
    frozen = _start_from(start, model, config) if start else Frozen()
    teacher = run.build_teacher(data)
    objective = build_objective(config.objective, teacher)
    say(f"{type(model).__name__} with {mechanism.name}: {count_parameters(model):,} parameters")
    if mechanism.learned and not objective.needs_delays():
        say("lambda=0: latency is not penalised, so the model may wait as long as it likes")
    return TranslationModule(
        model=model,
        objective=objective,
        plan=run.plan,
        optimiser=run.adam,
        passport=checkpoint.passport(config.plain, data.subwords, data.manifest),
        seed=config.seed,
        frozen=frozen,
    )


def _start_from(start: Trained, model: Model, config: Configuration) -> Frozen:
    """Load the parameters of another run that match the model's, and print what differs.

    Returns:
        The parameters that are frozen in the first `init_freeze` updates; none if all were loaded.
    """
    found, freeze = checkpoint.load_matching(model, start), config.init_freeze
    say(f"{found} start from {start.path}")
    if changed := resume.differences({"model": start.setup.model}, {"model": config.model}):
        say(f"options that differ there: {', '.join(changed)}")  # shapes do not tell, such as heads
    for reason, names in (("absent from", found.absent), ("of another shape in", found.reshaped)):
        parts = dict.fromkeys(".".join(name.split(".")[:3]) for name in names)
        if names:
            say(f"{len(names)} are {reason} that run: {shorten(', '.join(parts), 300)}")
    if freeze and found.share == 1:
        say(f"init_freeze={freeze} has no effect: all parameters come from {start.path}")
        return Frozen()
    return Frozen(frozenset(found.loaded), freeze)


def _describe(folder: Path, run: RunSpec, data: RunData, record: Mapping[str, str]) -> None:
    """Write configuration, provenance, the traits of the policy and the manifest of the data."""
    mechanism, plain_config, plugins = run.mechanism, run.config.plain, needed_by(run.config.plain)
    for name, text in record.items():
        write_text(folder / files.HYDRA / name, text)
    traits = files.Traits(mechanism.learned, mechanism.offline, mechanism.dials)
    write_json(folder / files.CONFIG, plain_config)
    used = resume.used_models(plain_config).values()
    write_json(folder / files.PROVENANCE, provenance(run.plan.accelerator, plugins, *used))
    write_json(folder / files.TRAITS, traits)
    write_json(folder / files.MANIFEST, data.manifest)  # last: with this file the run has begun


def _test(
    trainer: pl.Trainer, module: TranslationModule, decoder: SplitDecoder, chosen: Path
) -> Scores:
    """Decode the test set over all processes; write the instances, and print and log the scores.

    Some loggers also show translations, the path of a sentence and the curve of all validations.
    """
    folder = Path(trainer.default_root_dir)
    module.to(trainer.strategy.root_device)
    instances = decoder(module.model, watch)
    decoding = Decoding.by(decoder.search, chosen, "test", checkpoint.load(chosen).digest)
    scores = score(instances, decoder.split.needs, decoding)
    scores = replace(scores, faithfulness=known_faithfulness(instances, decoder.split))
    figures, unit = scores["paper", "word"], scores.writing.of_source()
    print_line(f"test BLEU {figures['BLEU'].form(1)}, test DAL {figures['DAL'].form()} {unit}s")
    if ending.is_first():
        write_instances(folder / files.INSTANCES, instances)
    summary.results(f"{module.model.mechanism.name} on test", scores, instances, chosen, folder)
    step = trainer.global_step - 1
    for logger in trainer.loggers:
        logger.log_metrics(flat_scores(scores, "test"), step)
    for board in boards(trainer.loggers):
        board.show_samples("test/samples", instances[:SHOWN], step)
        board.show_results(folder, step)
    return scores
