"""The models that panes show: each is in memory once, whatever dials and policies it has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import current_thread, main_thread
from traceback import extract_tb
from typing import ParamSpec, TypeVar

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from simulmt.attention import Mechanism
from simulmt.decoding.cuts import cut_of
from simulmt.decoding.policy import Policy
from simulmt.errors import UserError
from simulmt.live.translator import Translator
from simulmt.models.model import Model
from simulmt.options import asked_of
from simulmt.parts.builders import build_mechanism, build_policy, pick_device
from simulmt.saved.trained import Trained
from simulmt.serve.messages import ModelOffer, Option, PolicyOffer, Setting
from simulmt.system.ending import Ended

P = ParamSpec("P")
T = TypeVar("T")
_KEPT = 16
"""Maximum number of settings whose model is kept; the least recently used one is dropped."""


class Served:
    """A trained model that many panes show, with several dials and policies.

    All share its weights. The model itself is built again for each policy and value of the dials,
    which takes no further memory for weights.

    Args:
        name: what the page calls it.
        trained: the model.
        device: `auto`, `cpu` or `cuda`.
        policies: all policies, with their default options.
        examples: source sentences to try.
        cut: where the model ends a sentence in the source, a name of `CUTS`; None if clients end
            sentences.

    Raises:
        UserError: as for `Trained.build`.
    """

    def __init__(
        self,
        name: str,
        trained: Trained,
        device: str,
        policies: Sequence[PolicyOffer],
        examples: Sequence[str] = (),
        cut: str | None = None,
    ) -> None:
        self._device, self.cut = pick_device(device, trained.precision), cut
        weights = {key: tensor.to(self._device) for key, tensor in trained.weights.items()}
        self._trained = replace(trained, weights=weights)
        self._model = lru_cache(_KEPT)(self._build)
        mechanism = build_mechanism(trained.setup.mechanism)
        dials = options_of(type(mechanism.schedule), mechanism.dials, {})
        layers, described = self._model((), None).attending_layers, trained.manifest
        offers = tuple(contained(suited, offer, mechanism, layers) for offer in policies)
        if cut is not None:
            offers = tuple(contained(self._ending, offer, cut) for offer in offers)
        languages = described.source_language, described.target_language
        characters = described.writing.source, described.writing.target
        names = name, mechanism.name, languages
        self.offer = ModelOffer(*names, dials, offers, tuple(examples), characters)

    def translator(self, setting: Setting) -> Translator:
        """Return a separate translator for a pane.

        Raises:
            UserError: an unknown policy, option or dial, a value out of range, or a policy that
                makes no sense for the model.
        """
        policy = build_policy({"name": setting.policy, **setting.options})
        model = self._model(tuple(sorted(setting.dials.items())), policy)
        return Translator(model, self._trained.subwords, self._device, policy)

    def _ending(self, offer: PolicyOffer, cut: str) -> PolicyOffer:
        """Return a policy as it is if it ends sentences, or else as impossible."""
        try:
            cut_of(cut, self._model((), None), _policy(offer))
        except UserError as error:
            return replace(offer, unsuitable=str(error), possible=False)
        return offer

    def _build(self, dials: tuple[tuple[str, float], ...], policy: Policy | None) -> Model:
        return self._trained.build(dict(dials), policy).to(self._device)


def suited(offer: PolicyOffer, mechanism: Mechanism, layers: int) -> PolicyOffer:
    """Return a policy with what it demands of a model, whose `layers` attend to the source."""
    if (policy := _policy(offer)) is None:
        return offer
    demands = policy.demands(mechanism)
    misfit = demands.misfit(layers)
    return replace(
        offer,
        dials=demands.dials,
        overrules=demands.overrules,
        unsuitable=misfit or demands.unsuited,
        possible=not misfit,
    )


def _policy(offer: PolicyOffer) -> Policy | None:
    return build_policy({"name": offer.name, **{one.name: one.value for one in offer.options}})


def contained(call: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Call a function that may run a plugin's code, and return its result.

    Raises:
        UserError: the code raises an exception of any kind, also SystemExit.
    """
    try:
        return call(*given, **named)
    except BaseException as error:
        signal = isinstance(error, KeyboardInterrupt | Ended)
        if (signal and current_thread() is main_thread()) or isinstance(error, UserError):
            raise
        place = extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}, line {place.lineno}"
        raise UserError(f"{where}, raised {error!r}: correct it if it is a plugin's") from error


def options_of(
    make: type, values: Mapping[str, float | None], whys: Mapping[str, str]
) -> tuple[Option, ...]:
    """Return the options of a constructor that have a value; their types have the bounds."""
    group = TypedDict("group", asked_of(make))  # type: ignore[misc]
    kinds = TypeAdapter(group).json_schema()["properties"]
    names = [name for name in kinds if name in values]
    return tuple(Option(name, values[name], whys.get(name, ""), kinds[name]) for name in names)
