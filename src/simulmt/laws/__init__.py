"""The laws that every mechanism obeys on every model, also those of another package.

    from simulmt.attention import Lookback, Mechanism
    from simulmt.laws import hold

    def test_the_laws() -> None:
        hold(Mechanism(CatchUp(k=3, steady=6), Lookback(), name="catch_up"))

All is computed in float64, on small models with random weights and on random sentences of up to 16
tokens. Choose options with which the mechanism sometimes writes before it has read nine tokens:
a law about early decisions says nothing without any, and `hold` tells you so.
"""

from collections.abc import Callable, Mapping

import torch

from simulmt.attention import Mechanism
from simulmt.attention.schedule import Schedule
from simulmt.errors import UserError
from simulmt.laws.case import Case, VacuousError, certain
from simulmt.laws.of_attention import (
    attention_is_a_distribution,
    attention_is_an_expectation,
    known_stops_are_certain,
    rows_are_the_whole,
)
from simulmt.laws.of_streams import (
    batches_are_streams,
    later_tokens_change_nothing,
    listening_is_encoding,
    unread_tokens_have_no_gradient,
)
from simulmt.laws.of_training import (
    every_parameter_learns,
    padding_changes_nothing,
    training_is_hard_decoding,
)
from simulmt.laws.sentences import VOCABULARY
from simulmt.laws.small import SMALL, VARIANTS, Make

__all__ = ["LAWS", "VOCABULARY", "Case", "Law", "VacuousError", "check", "hold"]

Law = Callable[[Case], None]

LAWS: tuple[Law, ...] = (
    attention_is_a_distribution,
    rows_are_the_whole,
    attention_is_an_expectation,
    known_stops_are_certain,
    training_is_hard_decoding,
    padding_changes_nothing,
    every_parameter_learns,
    listening_is_encoding,
    batches_are_streams,
    unread_tokens_have_no_gradient,
    later_tokens_change_nothing,
)
"""Each states itself in the first line of its docstring. Streams come last: with a step that reads
on after the source's end, which `training_is_hard_decoding` finds, they would never end."""


def hold(
    mechanism: Mechanism,
    models: Mapping[str, Make] | None = None,
    sharpen: Callable[[Schedule], object] = certain,
) -> None:
    """Hold a mechanism to every law on every model.

    Args:
        mechanism: with options that let it write before it has read nine tokens.
        models: functions that build a small model for `mechanism=`, by name; None for the models of
            this package, with those variants of the Transformer that take the mechanism.
        sharpen: makes the decisions of a schedule certain in training, in place. Known stops are
            certain already, and odds are scaled by default. A schedule that plans an `Expected`
            alignment has to bring its own.

    Raises:
        AssertionError: a law is broken, or says nothing of the mechanism. The message names the
            law, the mechanism and the model, and has the size of the deviation.
    """
    with torch.random.fork_rng(devices=[]):
        for kind, make in (_taking(mechanism) if models is None else models).items():
            for law in LAWS:
                check(law, Case(mechanism, make, sharpen), kind)


def check(law: Law, case: Case, kind: str) -> None:
    """Check one law of a mechanism on a model called `kind`.

    Raises:
        AssertionError: the law is broken, or says nothing.
    """
    statement = (law.__doc__ or "").partition("\n")[0]
    where = f"mechanism={case.mechanism.name} on {kind}"
    try:
        law(case)
    except VacuousError as error:
        raise VacuousError(
            f"{law.__name__} says nothing of {where}, since {error}. The law: {statement} Choose "
            "other options of the mechanism."
        ) from None
    except AssertionError as error:
        raise AssertionError(f"{where} breaks {law.__name__}: {statement}\n{error}") from error


def _taking(mechanism: Mechanism) -> dict[str, Make]:
    """The small models, without the variants that refuse the mechanism."""
    found: dict[str, Make] = {**SMALL}
    for kind, make in VARIANTS.items():
        try:
            make(mechanism=mechanism)
        except UserError:
            continue
        found[kind] = make
    return found
