"""The parts that a configuration of `conf/train.yaml` names, checked before data are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge, Le, Lt

from simulmt.attention import Mechanism
from simulmt.builders import (
    SMALLEST,
    build_mechanism,
    build_objective,
    build_search,
    check_data,
    outline_model,
)
from simulmt.data.tokenizer import MOST_SUBWORDS
from simulmt.decoding.search import Search
from simulmt.errors import UserError
from simulmt.memory import check_memory
from simulmt.objective import Objective
from simulmt.options import Config, FolderName, Natural, Weight, check, construct
from simulmt.programs import teacher
from simulmt.programs.start import check_freeze
from simulmt.training.board import Open
from simulmt.training.callbacks import count_parameters
from simulmt.training.compiled import check_compiler
from simulmt.training.loggers import choose_logger
from simulmt.training.optimiser import Adam, make_adam
from simulmt.training.run import Plan
from simulmt.vocabulary import Vocabulary

GROUPS = ("data", "mechanism", "model", "teacher", "optim", "trainer", "logger")
OF_ROOT: dict[str, Any] = {
    **dict.fromkeys((*GROUPS, "objective", "decoding", "sweep"), dict),
    **dict.fromkeys(("lambda", "lambda_var"), Weight),
    "seed": Annotated[int, Ge(0), Lt(1 << 32)],
    "name": FolderName | None,
    "ckpt_path": str | None,
    "init_from": str | None,
    "init_freeze": Natural,
    "cache": str,
    "plugins": list[str],
}


@dataclass(frozen=True)
class Sweep:
    """The options of `sweep`, which `conf/train.yaml` explains."""

    restart: bool
    retries: Annotated[int, Ge(0), Le(100)]


@dataclass(frozen=True)
class Choices:
    """The parts of a run, the size of its model, and the options of its sweep."""

    plan: Plan
    parameters: int
    mechanism: Mechanism
    teacher: teacher.Build
    adam: Adam
    logger: Open
    search: Search
    sweep: Sweep


def check_choices(config: Config) -> Choices:
    """Return the parts; which machine trains them makes no difference.

    Raises:
        UserError: an option that is unknown, missing or out of range, or two that do not go
            together.
    """
    check(config, OF_ROOT, "")
    check_freeze(config)
    plan = construct(Plan, config["trainer"], "trainer")
    mechanism = build_mechanism(config["mechanism"])
    check_data(config["data"])
    model = outline_model(config["model"], mechanism, _vocabulary(config["data"].get("subwords")))
    objective = build_objective(config)
    if why := objective.misfit(mechanism):
        raise UserError(
            f"objective.name={config['objective']['name']} with mechanism={mechanism.name}: {why}"
        )
    _check_objective(objective, mechanism, plan)
    if plan.compile and not model.compiles:
        raise UserError(
            f"trainer.compile=true, but model.name={config['model']['name']} loops over "
            "the tokens, which takes torch.compile long: set trainer.compile=false"
        )
    return Choices(
        plan=plan,
        parameters=count_parameters(model),
        mechanism=mechanism,
        teacher=teacher.choose_teacher(config),
        adam=make_adam(config["optim"]),
        logger=choose_logger(config["logger"]),
        search=build_search(config["decoding"], model),
        sweep=construct(Sweep, config["sweep"], "sweep"),
    )


def check_machine(choices: Choices) -> None:
    """Refuse a run that this machine cannot train; another one of a cluster might.

    Raises:
        UserError: it has too few GPUs, too little memory for the parameters, or no compiler.
    """
    plan = choices.plan
    plan.check_devices()
    check_memory(plan.accelerator, plan.devices, choices.parameters)
    if plan.compile:
        check_compiler(plan.accelerator)


def _vocabulary(subwords: object) -> Vocabulary:
    """Return the vocabulary that `data.subwords` asks for, or the smallest one."""
    size = subwords.get("size") if isinstance(subwords, Mapping) else None
    if isinstance(size, int) and SMALLEST.size < size <= MOST_SUBWORDS:
        return Vocabulary(size)
    return SMALLEST


def _check_objective(objective: Objective, mechanism: Mechanism, plan: Plan) -> None:
    """Refuse latency weights that have no effect, or never reach their values."""
    if objective.needs_delays() and not mechanism.learned:
        weights = ", ".join(f"{k}={v:g}" for k, v in objective.weights(plan.max_updates).items())
        raise UserError(
            f"{weights} with mechanism={mechanism.name}: its decisions have no gradient, so "
            "there is no expected delay to weigh; set lambda and lambda_var to 0, or choose a "
            "mechanism with learned heads such as mma_il"
        )
    patient = None if plan.patience is None else plan.patience * plan.validate_every
    if patient is not None and not objective.settled(patient - 1):
        raise UserError(
            f"trainer.patience={plan.patience} validations of {plan.validate_every} updates could "
            "end the run before lambda is in force (objective.hold, objective.warmup); raise it"
        )
    if not objective.settled(plan.max_updates - 1):
        raise UserError(
            "lambda is held back for objective.hold updates, then grown over objective.warmup: it "
            f"would not reach its value within trainer.max_updates={plan.max_updates}; lower them"
        )
