"""The laws that every mechanism obeys on every model, in simulmt and in any other package.

    from simulmt.attention import Lookback, Mechanism
    from simulmt.laws import hold

    def test_the_laws() -> None:
        hold(Mechanism(CatchUp(k=3, steady=6), Lookback(), name="catch_up"))

The laws compute in float64, with small models, random weights and random sentences of up to 16
tokens. Choose options that let the mechanism sometimes write before it has read nine tokens.
Without such early decisions some laws say nothing, and `hold` raises an error.
"""

from collections.abc import Callable, Mapping

import torch

from simulmt.attention import Mechanism
from simulmt.attention.schedule import Schedule
from simulmt.errors import UserError
from simulmt.laws import of_attention, of_streams, of_training
from simulmt.laws.case import Case, VacuousError, certain
from simulmt.laws.sentences import VOCABULARY
from simulmt.laws.small import SMALL, VARIANTS, Make

__all__ = ["LAWS", "VOCABULARY", "Case", "Law", "VacuousError", "check", "hold"]

Law = Callable[[Case], None]

LAWS: tuple[Law, ...] = (
    of_attention.attention_is_a_distribution,
    of_attention.rows_are_the_whole,
    of_attention.attention_is_an_expectation,
    of_attention.known_stops_are_certain,
    of_training.training_is_hard_decoding,
    of_training.padding_changes_nothing,
    of_training.every_parameter_learns,
    of_streams.stepwise_encoding_is_encoding,
    of_streams.batches_are_streams,
    of_streams.unread_tokens_have_no_gradient,
    of_streams.later_tokens_change_nothing,
)
"""The first line of a law's docstring states it. `training_is_hard_decoding` finds a step that
reads on after the source's end; it comes before the laws of streams, which would never end."""


def hold(
    mechanism: Mechanism,
    models: Mapping[str, Make] | None = None,
    sharpen: Callable[[Schedule], object] = certain,
) -> None:
    """Check a mechanism against every law on every model.

    Args:
        mechanism: with options that let it write before it has read nine tokens.
        models: functions that build a small model from `mechanism=`, by name; None for simulmt's
            models, with those variants of the Transformer that take the mechanism.
        sharpen: changes a schedule in place, so that its decisions in training are certain. The
            default scales odds; known stops are certain already. A schedule that plans an
            `Expected` alignment needs its own function.

    Raises:
        AssertionError: a law is broken, or says nothing about the mechanism. The message names the
            law, the mechanism and the model, and gives the size of the deviation.
    """
    assert isinstance(mechanism, Mechanism), f"hold checks a Mechanism, not {mechanism}"
    with torch.random.fork_rng(devices=[]):
        why = "no models are given"
        if models is None:
            models = {}
            for kind, make in (SMALL | VARIANTS).items():
                try:
                    make(mechanism=mechanism)
                    models[kind] = make
                except UserError as error:  # the model does not take the mechanism
                    why = str(error)
        assert models, f"no model takes mechanism={mechanism.name}: {why}"
        for kind, make in models.items():
            for law in LAWS:
                check(law, Case(mechanism, make, sharpen), kind)


def check(law: Law, case: Case, kind: str) -> None:
    """Check one law on a case, whose model is called `kind` in messages.

    Raises:
        AssertionError: the law is broken, or says nothing.
    """
    statement = (law.__doc__ or "").partition("\n")[0]
    where = f"mechanism={case.mechanism.name} on {kind}"
    try:
        law(case)
    except VacuousError as error:
        raise VacuousError(
            f"{law.__name__} says nothing about {where}, since {error}. The law: {statement} "
            "Choose other options for the mechanism, or another model."
        ) from None
    except Exception as error:  # of the mechanism's own code, too
        what = error if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        raise AssertionError(f"{where} breaks {law.__name__}: {statement}\n{what}") from error
