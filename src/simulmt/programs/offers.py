"""The policies that a user may choose while a program runs, with the defaults of `conf/policy`."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from simulmt.decoding.policies import OWN, POLICIES
from simulmt.options import Config, pick
from simulmt.plugins import CONF, HOME, conf_folders
from simulmt.programs.help import head
from simulmt.serve.messages import PolicyOffer
from simulmt.serve.models import options_of


def policy_offers(plugins: Sequence[str]) -> list[PolicyOffer]:
    """Return all policies: those of simulmt, of installed plugins and of `plugins`."""
    folders = [HOME / CONF, *conf_folders(plugins).values()]
    offers = [_offer(path) for one in folders for path in sorted((one / "policy").glob("*.yaml"))]
    return sorted(offers, key=lambda offer: offer.name != OWN)


def completed(policy: object, offers: Sequence[PolicyOffer]) -> Config:
    """Return the options of a policy that a user wrote as a name, or as a name and some options.

    None means the model's own decision.

    Raises:
        UserError: it is neither, or there is no such policy.
    """
    given = policy if isinstance(policy, dict) else {"name": OWN if policy is None else policy}
    offer = pick({one.name: one for one in offers}, given.get("name"), "policy2")
    return {option.name: option.value for option in offer.options} | given


def _offer(path: Path) -> PolicyOffer:
    """Return the policy of a file; the comment at its top says what the policy does."""
    lines = path.read_text(encoding="utf-8").splitlines()
    whole = {line.partition(":")[0]: line for line in lines}  # with the comment on the option
    values = yaml.safe_load("\n".join(lines))
    name = values.pop("name")
    make = None if name == OWN else pick(POLICIES, name, f"the name in {path}")
    options = options_of(make, values, whole) if make else ()
    return PolicyOffer(name, " ".join(head(path)), bool(make and make.revises), options)
