"""The policies that a user may choose while a program runs, with the defaults of `conf/policy`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from simulmt.decoding.policies import OWN, POLICIES
from simulmt.options import Config, pick
from simulmt.plugins import CONF, HOME, conf_folders
from simulmt.programs.keys import choices, find, keys_of, read
from simulmt.serve.events import PolicyOffer
from simulmt.serve.models import policy_offer

_GROUP = "policy"


def policy_offers(plugins: Sequence[str]) -> list[PolicyOffer]:
    """Return all policies: those of simulmt, of installed plugins and of `plugins`."""
    folders = [HOME / CONF, *conf_folders(plugins).values()]
    offers = [_offer(folders, name) for name in choices(folders, _GROUP)]
    return sorted(offers, key=lambda offer: offer.name != OWN)


def completed(policy: object, offers: Sequence[PolicyOffer]) -> Config:
    """Return the options of a policy that a user wrote as a name, or as a name and some options.

    Raises:
        UserError: it is neither, or there is no such policy.
    """
    given = policy if isinstance(policy, dict) else {"name": policy}
    by_name = {offer.name: offer for offer in offers}
    offer = pick(by_name, given.get("name"), "policy2")
    return {option.name: option.value for option in offer.options} | given


def _offer(folders: Sequence[Path], name: str) -> PolicyOffer:
    path = f"{_GROUP}/{name}"
    values: dict[str, Any] = {
        key.name: (yaml.safe_load(key.value), key.why)
        for key in keys_of(folders, path).values()
        if key.value is not None
    }
    named, _ = values.pop("name", (None, ""))
    make = None if named == OWN else pick(POLICIES, named, f"the name in conf/{path}.yaml")
    return policy_offer(str(named), make, " ".join(read(find(folders, path)).header), values)
