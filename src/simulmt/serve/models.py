"""The models that panes show: each is in memory once, whatever dials and policies it has."""

import typing
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from annotated_types import Ge, Gt, Le, Lt

from simulmt.builders import build_mechanism, build_policy, pick_device
from simulmt.decoding.policies import OWN
from simulmt.decoding.policy import Policy
from simulmt.errors import UserError
from simulmt.live.translator import Translator
from simulmt.models.model import Model
from simulmt.options import asked_of
from simulmt.saved.trained import Trained
from simulmt.serve.events import ModelOffer, Option, PolicyOffer
from simulmt.serve.messages import Setting

_KEPT = 16
"""The most settings of the dials that a model is kept for; the least recently used makes room."""
_FAR = 10_000
"""The steps of an option within which its page shows a limit."""


class Served:
    """A trained model that many panes show, with several dials and policies.

    All share its weights. The model itself is built anew for each value of the dials, which takes
    no further memory for weights.

    Args:
        name: what the page calls it.
        trained: the model.
        device: `auto`, `cpu` or `cuda`.
        policies: the policies that may suit it, with their default options.

    Raises:
        UserError: as for `Trained.build`.
    """

    def __init__(
        self, name: str, trained: Trained, device: str, policies: Sequence[PolicyOffer]
    ) -> None:
        self._device = pick_device(device)
        weights = {key: tensor.to(self._device) for key, tensor in trained.weights.items()}
        self._trained = replace(trained, weights=weights)
        self._mechanism = build_mechanism(trained.config["mechanism"])
        self._built = OrderedDict[tuple[tuple[str, float], ...], Model]()
        self._layers = self._model({}).attending_layers
        suited = (self._suited(offer) for offer in policies)
        offers = tuple(offer for offer in suited if offer)
        self.offer = ModelOffer(name, _about(trained), self._dials(), offers)

    def translator(self, setting: Setting) -> Translator:
        """Return a translator of its own for a pane.

        Raises:
            UserError: an unknown policy, option or dial, a value out of range, or a policy that
                makes no sense for the model.
        """
        policy = build_policy({"name": setting.policy, **setting.options})
        if policy and (misfit := policy.misfit(self._mechanism, self._layers)):
            raise UserError(f"policy={setting.policy}: {misfit}")
        preset = policy.model_dials(self._mechanism) if policy else {}
        model = self._model({**preset, **setting.dials})
        return Translator(model, self._trained.subwords, self._device, policy)

    def _model(self, dials: Mapping[str, float]) -> Model:
        key = tuple(sorted(dials.items()))
        if key not in self._built:
            self._built[key] = self._trained.build(dials).to(self._device)
        self._built.move_to_end(key)
        while len(self._built) > _KEPT:
            self._built.popitem(last=False)
        return self._built[key]

    def _suited(self, offer: PolicyOffer) -> PolicyOffer | None:
        """Return the offer for this model; None if the policy makes no sense for it."""
        defaults = {option.name: option.value for option in offer.options}
        policy = build_policy({"name": offer.name, **defaults})
        if policy is None:
            return offer
        misfit = policy.misfit(self._mechanism, self._layers)
        return None if misfit else replace(offer, dials=policy.model_dials(self._mechanism))

    def _dials(self) -> tuple[Option, ...]:
        kinds = asked_of(type(self._mechanism.schedule))
        dials = self._mechanism.dials.items()
        return tuple(option_of(name, value, "", kinds[name]) for name, value in dials)


def policy_offer(
    name: str, make: type[Policy] | None, why: str, defaults: Mapping[str, tuple[Any, str]]
) -> PolicyOffer:
    """Return a policy with its options, whose types are those of its signature.

    Args:
        name: of the policy.
        make: its class; None for the model's own decision.
        why: what it does.
        defaults: the default and the explanation of each option.
    """
    kinds = asked_of(make) if make else {}
    options = (option_of(key, *defaults[key], kind) for key, kind in kinds.items())
    return PolicyOffer(name, why, bool(make and make.revises), tuple(options))


def option_of(name: str, value: float | None, why: str, kind: Any) -> Option:
    """Return an option as the page shows it; its type gives the limits."""
    optional = type(None) in typing.get_args(kind)
    if optional:
        kind = typing.get_args(kind)[0]
    plain, *limits = typing.get_args(kind) or (kind,)

    step = 1 if plain is int else 0.01
    least: Any = None
    most: Any = None
    for bound in limits:
        if isinstance(bound, Ge | Gt):
            least = bound.ge if isinstance(bound, Ge) else cast(float, bound.gt) + step
        if isinstance(bound, Le | Lt):
            most = bound.le if isinstance(bound, Le) else cast(float, bound.lt) - step
    most = None if most is not None and most > _FAR else most
    return Option(name, value, why, plain is int, least, most, optional)


def own(model: int = 0) -> Setting:
    """Return the setting of a model as it was trained."""
    return Setting(model, OWN, {}, {})


def _about(trained: Trained) -> str:
    languages = (trained.manifest[f"{side}_language"] for side in ("source", "target"))
    return f"{trained.config['mechanism'].get('name', '')} {' → '.join(languages)}"
