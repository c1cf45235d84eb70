"""The configuration as typed objects: the one place with the keys of `conf/train.yaml`.

A configuration is kept and compared as plain values: in `config.json`, in a checkpoint, between the
processes of a run. The code that uses it reads one of these objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Le, Lt

from simulmt.errors import UserError
from simulmt.options import Config, FolderName, Natural, Weight, construct, convert

WEIGHTS = ("lambda", "lambda_var")
"""Options that a user sets at the root and that an objective copies: `lambda: ${lambda}`."""


@dataclass(frozen=True)
class SweepOptions:
    """Options of the runs of a sweep."""

    retries: Annotated[int, Ge(0), Le(100)]


@dataclass(frozen=True)
class Configuration:
    """A configuration of `conf/train.yaml`: its keys, checked, and its groups as plain options.

    Each group is checked by what is built from it. `plain` holds the whole as plain values.
    """

    plain: Config
    data: Config
    objective: Config
    mechanism: Config
    model: Config
    teacher: Config
    optim: Config
    trainer: Config
    logger: Config
    callbacks: Mapping[str, Config] | None
    decoding: Config
    sweep: SweepOptions
    lambda_: Weight
    lambda_var: Weight
    seed: Annotated[int, Ge(0), Lt(1 << 32)]
    name: FolderName | None
    ckpt_path: str | None
    init_from: Path | None
    init_freeze: Natural
    init_partial: bool
    cache: Path

    @classmethod
    def of(cls, plain: Config) -> "Configuration":
        """Return the configuration that plain values describe.

        Raises:
            UserError: a key is unknown, missing or out of range, or a weight has no effect.
        """
        read = construct(cls, plain, "", {"plain": plain})
        for name, weight in zip(WEIGHTS, (read.lambda_, read.lambda_var), strict=True):
            if weight and name not in read.objective:
                raise UserError(
                    f"{name}={weight:g}, but objective.name={read.objective.get('name')} has no "
                    f"{name}: set {name}=0, or choose learned heads, such as mechanism=mma_il"
                )
        return read


@dataclass(frozen=True)
class Setup:
    """The part of a configuration that a trained model keeps.

    Attributes:
        mechanism: The group, as `build_mechanism` takes it.
        model: The group, as `build_model` takes it.
        data: The group, as `build_corpus` takes it.
        decoding: The group, as `build_search` takes it.
        batch_tokens: The token budget of a batch in training.
        weights: `lambda` and `lambda_var` of its objective, if not 0.
        cache: The folder in which its training kept text.
    """

    mechanism: Config
    model: Config
    data: Config
    decoding: Config
    batch_tokens: int
    weights: Mapping[str, float]
    cache: Path | None

    @classmethod
    def of(cls, plain: Config) -> "Setup":
        """Return the setup of a configuration, which may be that of an exported model.

        Raises:
            ValueError: an entry is of another type.
            KeyError: an entry is missing.
        """
        groups = {name: plain[name] for name in ("mechanism", "model", "data", "decoding")}
        objective = plain.get("objective", {})  # imported models have none
        weights = {name: objective[name] for name in WEIGHTS if objective.get(name)}
        own = {"batch_tokens": plain["data"]["batch_tokens"], "cache": plain.get("cache")}
        return convert({**groups, **own, "weights": weights}, cls)
