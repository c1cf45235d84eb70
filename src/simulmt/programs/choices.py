"""The parts that a configuration of `conf/train.yaml` names, checked before data are read."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from simulmt.attention import Mechanism
from simulmt.decoding.search import Search
from simulmt.errors import UserError
from simulmt.models.model import Model
from simulmt.objective import Objective
from simulmt.options import Config, construct
from simulmt.parts.builders import (
    Data,
    build_mechanism,
    build_objective,
    build_search,
    outline_model,
)
from simulmt.parts.configuration import Configuration
from simulmt.programs import teacher
from simulmt.training.loggers import Open, choose_logger
from simulmt.training.optimiser import Adam, make_adam
from simulmt.training.run import TrainingPlan


@dataclass(frozen=True)
class Sweep:
    """The options of `sweep`, which `conf/train.yaml` explains."""

    restart: bool
    retries: Annotated[int, Ge(0), Le(100)]


@dataclass(frozen=True)
class Choices:
    """The configuration of a run, as plain values and as an object, and the parts it names."""

    settings: Config
    config: Configuration
    plan: TrainingPlan
    mechanism: Mechanism
    data: Data
    teacher: teacher.Build
    adam: Adam
    logger: Open | None
    search: Search
    sweep: Sweep


def check_choices(settings: Config) -> Choices:
    """Return the parts of a run; any machine may train them.

    Args:
        settings: the composed configuration, as plain values.

    Raises:
        UserError: an option that is unknown, missing or out of range, or two that exclude each
            other.
    """
    config = Configuration.of(settings)
    plan = construct(TrainingPlan, config.trainer, "trainer")
    mechanism = build_mechanism(config.mechanism)
    data = Data.of(config.data)
    model = outline_model(config.model, mechanism, data.vocabulary)
    objective = build_objective(config.objective)
    for excluded, why in exclusions(config, plan, mechanism, model, objective):
        if excluded:
            raise UserError(why)
    return Choices(
        settings=settings,
        config=config,
        plan=plan,
        mechanism=mechanism,
        data=data,
        teacher=teacher.choose_teacher(config),
        adam=make_adam(config.optim),
        logger=choose_logger(config.logger),
        search=build_search(config.decoding, model),
        sweep=construct(Sweep, config.sweep, "sweep"),
    )


def exclusions(
    config: Configuration,
    plan: TrainingPlan,
    mechanism: Mechanism,
    model: Model,
    objective: Objective,
) -> list[tuple[bool, str]]:
    """Return what options exclude each other: whether they do here, and a line about it."""
    weights = ", ".join(f"{k}={v:g}" for k, v in objective.weights(plan.max_updates).items())
    last = plan.max_updates - 1
    patient = last if plan.patience is None else plan.patience * plan.validate_every - 1
    return [
        (
            bool(misfit := objective.misfit(mechanism)),
            f"objective.name={config.objective['name']} with mechanism={mechanism.name}: {misfit}",
        ),
        (
            config.init_freeze > 0 and config.init_from is None,
            f"init_freeze={config.init_freeze} freezes the parameters of another run: give "
            "init_from=RUN, or set init_freeze=0",
        ),
        (
            objective.needs_delays() and not mechanism.learned,
            f"{weights} with mechanism={mechanism.name}, whose decisions have no gradient: set "
            "lambda=0 and lambda_var=0, or choose a mechanism with learned heads such as mma_il",
        ),
        (
            not objective.at_full_weight(last),
            f"objective.hold and objective.warmup end after trainer.max_updates={plan.max_updates},"
            " so lambda would never reach its value: lower them",
        ),
        (
            not objective.at_full_weight(patient),
            f"trainer.patience={plan.patience} validations of {plan.validate_every} updates could "
            "end the run before lambda is in force (objective.hold, objective.warmup): raise it",
        ),
        (
            plan.compile and not model.compiles,
            f"trainer.compile=true with model.name={config.model['name']}, which loops over the "
            "tokens and takes torch.compile long: set trainer.compile=false",
        ),
    ]
