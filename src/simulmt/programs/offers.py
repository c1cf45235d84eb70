"""The policies that a user may choose while a program runs, with the defaults of `conf/policy`."""

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import yaml

from simulmt.decoding.policies import OWN, POLICIES
from simulmt.options import Config, pick
from simulmt.plugins import CONF, HOME, conf_folders
from simulmt.serve.events import PolicyOffer
from simulmt.serve.models import policy_offer


def policy_offers(plugins: Sequence[str]) -> list[PolicyOffer]:
    """Return all policies: those of simulmt, of installed plugins and of `plugins`."""
    folders = [HOME / CONF, *conf_folders(plugins).values()]
    offers = [_offer(path) for one in folders for path in sorted((one / "policy").glob("*.yaml"))]
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


def _offer(path: Path) -> PolicyOffer:
    """Return the policy of a file; the comment at its top says what the policy does."""
    lines = path.read_text(encoding="utf-8").splitlines()
    why = " ".join(line.strip("# ") for line in takewhile(lambda line: line[:1] == "#", lines))
    said = {line.partition(":")[0]: line.partition("# ")[2] for line in lines}
    values = yaml.safe_load("\n".join(lines))
    name = values.pop("name")
    make = None if name == OWN else pick(POLICIES, name, f"the name in {path}")
    return policy_offer(name, make, why, {key: (values[key], said[key]) for key in values})
