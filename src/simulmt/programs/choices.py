"""What a configuration of `conf/train.yaml` names: all that can be refused before data are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulmt.attention import Mechanism
from simulmt.builders import OF_DATA, build_mechanism, build_objective, build_search, outline_model
from simulmt.decoding.search import Search
from simulmt.errors import UserError
from simulmt.objective import Objective
from simulmt.options import check, construct
from simulmt.programs import teacher
from simulmt.training.loggers import CsvOnly, TensorBoard, choose_logger
from simulmt.training.optimiser import Adam, make_adam
from simulmt.training.plan import Plan
from simulmt.training.weights_and_biases import Wandb

GROUPS = ("data", "mechanism", "model", "teacher", "optim", "trainer", "logger")
OF_ROOT: dict[str, Any] = {
    **dict.fromkeys((*GROUPS, "objective", "decoding", "sweep"), dict),
    **dict.fromkeys(("lambda", "lambda_var"), float),
    "seed": Any,
    "ckpt_path": str | None,
    "init_from": str | None,
    "cache": str,
}
OF_SWEEP = {"restart": bool, "retries": int}


@dataclass(frozen=True)
class Choices:
    """Parts that go together, each with its own file to read about it."""

    plan: Plan
    mechanism: Mechanism
    teacher: teacher.Choice
    adam: Adam
    logger: CsvOnly | TensorBoard | Wandb
    search: Search


def check_choices(config: Mapping[str, Any]) -> Choices:
    """The parts.

    Raises:
        UserError: an option that is unknown, missing or out of range, or two that do not go
            together.
    """
    check(config, OF_ROOT, "")
    plan = construct(Plan, config["trainer"], "trainer")
    mechanism = build_mechanism(config["mechanism"])
    _check_numbers(config)
    model = outline_model(config["model"], mechanism)
    _check_objective(build_objective(config), mechanism, plan)
    return Choices(
        plan=plan,
        mechanism=mechanism,
        teacher=teacher.choose_teacher(config),
        adam=make_adam(config["optim"]),
        logger=choose_logger(config["logger"]),
        search=build_search(config["decoding"], model),
    )


def _check_numbers(config: Mapping[str, Any]) -> None:
    ours = {name: value for name, value in config["data"].items() if name in OF_DATA}
    check(ours, OF_DATA, "data")
    if ours["batch_tokens"] < 1:
        raise UserError(f"data.batch_tokens is {ours['batch_tokens']}; it must be at least 1")
    seed = config["seed"]
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 32:
        raise UserError(f"seed is {seed!r}; it must be a whole number from 0 to {2**32 - 1:,}")
    check(config["sweep"], OF_SWEEP, "sweep")
    if config["sweep"]["retries"] < 0:
        raise UserError(f"sweep.retries is {config['sweep']['retries']}; it must be at least 0")


def _check_objective(objective: Objective, mechanism: Mechanism, plan: Plan) -> None:
    """Refuse latency weights that would do nothing, or would not come into force."""
    if objective.needs_delays() and not mechanism.learned:
        weights = ", ".join(f"{k}={v:g}" for k, v in objective.weights(plan.max_updates).items())
        raise UserError(
            f"{weights} with mechanism={mechanism.name}: its schedule is fixed, so there is no "
            "expected delay to weigh; set lambda and lambda_var to 0, or choose a learned "
            "mechanism such as mma_il"
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
