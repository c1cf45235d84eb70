"""The models that panes show: each is in memory once, whatever dials and policies it has."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from simulmt.decoding.policy import Policy
from simulmt.live.translator import Translator
from simulmt.models.model import Model
from simulmt.options import asked_of
from simulmt.parts.builders import build_mechanism, build_policy, pick_device
from simulmt.saved.trained import Trained
from simulmt.serve.messages import ModelOffer, Option, PolicyOffer, Setting

_KEPT = 16
"""The most settings that a model is kept for; the least recently used makes room."""


class Served:
    """A trained model that many panes show, with several dials and policies.

    All share its weights. The model itself is built again for each policy and value of the dials,
    which takes no further memory for weights.

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
        self._model = lru_cache(_KEPT)(self._build)
        mechanism = build_mechanism(trained.setup.mechanism)
        dials = options_of(type(mechanism.schedule), mechanism.dials, {})
        offers, layers = list[PolicyOffer](), self._model((), None).attending_layers
        for offer in policies:
            options = {option.name: option.value for option in offer.options}
            policy = build_policy({"name": offer.name, **options})
            if policy is None:
                offers.append(offer)
            elif not (demands := policy.demands(mechanism)).misfit(layers):
                offers.append(replace(offer, dials=demands.dials))
        described = trained.manifest
        about = f"{mechanism.name} {described.source_language} → {described.target_language}"
        self.offer = ModelOffer(name, about, dials, tuple(offers))

    def translator(self, setting: Setting) -> Translator:
        """Return a separate translator for a pane.

        Raises:
            UserError: an unknown policy, option or dial, a value out of range, or a policy that
                makes no sense for the model.
        """
        policy = build_policy({"name": setting.policy, **setting.options})
        model = self._model(tuple(sorted(setting.dials.items())), policy)
        return Translator(model, self._trained.subwords, self._device, policy)

    def _build(self, dials: tuple[tuple[str, float], ...], policy: Policy | None) -> Model:
        return self._trained.build(dict(dials), policy).to(self._device)


def options_of(
    make: type, values: Mapping[str, float | None], whys: Mapping[str, str]
) -> tuple[Option, ...]:
    """Return the options of a constructor that have a value; their types have the bounds."""
    group = TypedDict("group", asked_of(make))  # type: ignore[misc]
    kinds = TypeAdapter(group).json_schema()["properties"]
    names = [name for name in kinds if name in values]
    return tuple(Option(name, values[name], whys.get(name, ""), kinds[name]) for name in names)
