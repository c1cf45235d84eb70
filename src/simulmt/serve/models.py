"""The models that panes show: each is in memory once, whatever dials and policies it has."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from simulmt.builders import build_mechanism, build_policy, pick_device
from simulmt.decoding.policy import Policy
from simulmt.errors import UserError
from simulmt.live.translator import Translator
from simulmt.models.model import Model
from simulmt.options import asked_of
from simulmt.saved.trained import Trained
from simulmt.serve.messages import ModelOffer, Option, PolicyOffer, Setting

_KEPT = 16
"""The most settings of the dials that a model is kept for; the least recently used makes room."""


class Served:
    """A trained model that many panes show, with several dials and policies.

    All share its weights. The model itself is built again for each value of the dials, which takes
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
        self._built = lru_cache(_KEPT)(self._build)
        self._layers = self._model({}).attending_layers
        suited = (self._suited(offer) for offer in policies)
        kinds = asked_of(type(self._mechanism.schedule), {})
        dials = (option_of(key, kinds[key], value) for key, value in self._mechanism.dials.items())
        languages = (trained.manifest[f"{side}_language"] for side in ("source", "target"))
        about = f"{trained.config['mechanism'].get('name', '')} {' → '.join(languages)}"
        self.offer = ModelOffer(name, about, tuple(dials), tuple(one for one in suited if one))

    def translator(self, setting: Setting) -> Translator:
        """Return a separate translator for a pane.

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
        return self._built(tuple(sorted(dials.items())))

    def _build(self, dials: tuple[tuple[str, float], ...]) -> Model:
        return self._trained.build(dict(dials)).to(self._device)

    def _suited(self, offer: PolicyOffer) -> PolicyOffer | None:
        """Return the offer for this model; None if the policy makes no sense for it."""
        defaults = {option.name: option.value for option in offer.options}
        policy = build_policy({"name": offer.name, **defaults})
        if policy is None:
            return offer
        misfit = policy.misfit(self._mechanism, self._layers)
        return None if misfit else replace(offer, dials=policy.model_dials(self._mechanism))


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
    kinds = asked_of(make, {}) if make else {}
    options = (option_of(key, kind, *defaults[key]) for key, kind in kinds.items())
    return PolicyOffer(name, why, bool(make and make.revises), tuple(options))


def option_of(name: str, kind: Any, value: float | None, why: str = "") -> Option:
    """Return an option as the page shows it; its type has the bounds."""
    return Option(name, value, why, TypeAdapter(kind).json_schema())
