"""The specification of a run: what a configuration of `conf/train.yaml` names, all checked."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from simulmt.attention import Mechanism
from simulmt.decoding.search import Search
from simulmt.errors import UserError
from simulmt.models.model import Model
from simulmt.objective import Objective
from simulmt.options import Config, construct
from simulmt.parts import builders
from simulmt.parts.configuration import WEIGHTS, Configuration
from simulmt.programs.teacher import BuildTeacher, choose_teacher
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained
from simulmt.scoring.conventions import check_bleu
from simulmt.training.optimiser import Adam, make_adam
from simulmt.training.plan import TrainingPlan


@dataclass(frozen=True)
class RunSpec:
    """A configuration and the parts that it names; neither data nor devices are needed for it."""

    config: Configuration
    plan: TrainingPlan
    mechanism: Mechanism
    data: builders.Data
    build_teacher: BuildTeacher
    adam: Adam
    search: Search

    @classmethod
    def of(cls, plain: Config, typed: Sequence[str] | None = None) -> "RunSpec":
        """Return the specification of a run from its composed configuration.

        Args:
            plain: the configuration.
            typed: the overrides on the command line; without `model=` among them, a run with
                `init_from` has the model of that checkpoint. None keeps the configured model.

        Raises:
            UserError: an option is unknown, missing or out of range, two options exclude each
                other, or less than half of the model's parameters are in `init_from`.
        """
        config = Configuration.of(plain)
        plan = construct(TrainingPlan, config.trainer, "trainer")
        mechanism = builders.build_mechanism(config.mechanism)
        data = builders.Data.of(config.data)
        check_bleu(data.writing)
        start = checkpoint.load(config.init_from, "init_from") if config.init_from else None
        if start and typed is not None:
            chosen = _model_of(start, config.model, mechanism, typed)
            config = replace(config, model=chosen, plain={**config.plain, "model": chosen})
        vocabulary = start.subwords.vocabulary if start else data.vocabulary
        model = builders.outline_model(config.model, mechanism, vocabulary)
        if start:
            _check_share(config, checkpoint.match_weights(model, start))
        taught = config.teacher.get("kind") != "none"
        objective = builders.build_objective(config.objective, taught=taught)
        _check_together(config, plan, model, objective)
        _check_documents(config, data, model, objective, typed or ())
        return cls(
            config=config,
            plan=plan,
            mechanism=mechanism,
            data=data,
            build_teacher=choose_teacher(config),
            adam=make_adam(config.optim),
            search=builders.build_search(config.decoding, model),
        )


def _model_of(
    start: Trained, configured: Config, mechanism: Mechanism, typed: Sequence[str]
) -> Config:
    """Return the model of a checkpoint with the options that were typed, unless `model=` was.

    Dropout is not part of an architecture, and the encoder of a model that streams has to stream.
    What streams without sentence ends need is added to the model.
    """
    keys = {word.lstrip("+~").partition("=")[0] for word in typed}
    if "model" in keys:
        return configured
    theirs = start.setup.model
    kept = {"dropout", *(() if mechanism.offline else ("encoder",))} & theirs.keys()
    kept |= {key.removeprefix("model.") for key in keys if key.startswith("model.")}
    kept |= {key for key in ("boundaries", "history") if configured.get(key)}
    return {**theirs, **{key: value for key, value in configured.items() if key in kept}}


def _check_share(config: Configuration, found: checkpoint.Matched) -> None:
    """Reject a model if most of it (with `init_partial`, all of it) would start untrained."""
    if not found.loaded or (found.share < 0.5 and not config.init_partial):
        raise UserError(
            f"init_from={config.init_from}: only {found} match: leave out model= and model.KEY= to "
            "train the model of that run (or set init_partial=true if less than half may match)"
        )


def _check_documents(
    config: Configuration,
    data: builders.Data,
    model: Model,
    objective: Objective,
    typed: Sequence[str],
) -> None:
    """Reject options for documents if there are none, and a pointer that no loss trains."""
    changed = [f.name for f in fields(data.windows) if getattr(data.windows, f.name) != f.default]
    given = [f"data.{name}={config.data[name]}" for name in changed]
    given += ["model.boundaries=true"] * (model.boundary is not None)
    given += [word for word in typed if word.startswith("data.join=[")]  # presets have one, too
    if given and not data.documents.documents:
        raise UserError(
            f"{' and '.join(given)} without documents: set data.documents=true, or leave out "
            f"{'it' if len(given) == 1 else 'them'}"
        )
    history = data.windows.history
    if model.history != history and (history or config.init_from is None):
        raise UserError(
            f"data.history={history}, but the model sees {model.history or 'no'} subwords of "
            f"earlier text: set data.history={model.history}, or take model=transformer and leave "
            "out model.history"
        )
    if model.boundary is not None and not objective.points:
        raise UserError(
            f"model.boundaries=true with objective.name={config.objective['name']}, which does not "
            "train it: set model.boundaries=false, and evaluate with cut=likelihood, or with "
            "cut=reading for mechanism=hmt"
        )


def _check_together(
    config: Configuration, plan: TrainingPlan, model: Model, objective: Objective
) -> None:
    """Reject options that exclude each other."""
    mechanism = model.mechanism
    if misfit := objective.misfit(mechanism):
        raise UserError(
            f"objective.name={config.objective['name']} with mechanism={mechanism.name}: {misfit}"
        )
    if (config.init_freeze or config.init_partial) and config.init_from is None:
        raise UserError(
            f"init_freeze={config.init_freeze} and init_partial={config.init_partial} without "
            "another run: give init_from=RUN, or leave them out"
        )
    if config.ckpt_path and (plan.lightning or {}).get("fast_dev_run"):
        raise UserError(
            f"trainer.lightning.fast_dev_run saves nothing, but ckpt_path={config.ckpt_path} "
            "resumes a run: leave one of them out"
        )
    if objective.needs_delays() and not mechanism.learned:
        weights = {name: config.objective.get(name) for name in WEIGHTS}
        given = [f"{name}={weight:g}" for name, weight in weights.items() if weight]
        raise UserError(
            f"{' and '.join(given or ['objective'])} with mechanism={mechanism.name}, whose "
            "decisions have no gradient: set lambda=0 and lambda_var=0, or choose a mechanism with "
            "learned heads, such as mma_il"
        )
    validations = plan.max_updates if plan.patience is None else plan.patience + 1
    first_end = min(plan.max_updates, validations * plan.validate_every)  # the first one improves
    if not objective.at_full_weight(first_end - 1):
        patience = "" if plan.patience is None else f" and trainer.patience={plan.patience}"
        raise UserError(
            f"trainer.max_updates={plan.max_updates}{patience} may end the run after "
            f"{first_end:,} updates, but objective.hold={objective.hold} + objective.warmup="
            f"{objective.warmup} is {objective.hold + objective.warmup:,}: lower these, or train "
            "longer"
        )
    for option, asked in {"compile": plan.compile, "recompute": plan.recompute}.items():
        if asked and model.loops:
            raise UserError(
                f"trainer.{option}=true with model.name={config.model['name']}, which loops over "
                f"tokens: set trainer.{option}=false, or take model=transformer"
            )
