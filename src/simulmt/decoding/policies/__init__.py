"""Policies, a file each, and the table that `policy.name` is looked up in."""

from simulmt.decoding.policies.adaptive_wait_k import AdaptiveWaitK
from simulmt.decoding.policies.align_att import AlignAtt
from simulmt.decoding.policies.confidence import Confidence
from simulmt.decoding.policies.ed_att import EDAtt
from simulmt.decoding.policies.from_file import FromFile
from simulmt.decoding.policies.hold_n import HoldN
from simulmt.decoding.policies.local_agreement import LocalAgreement
from simulmt.decoding.policies.newest_token import NewestToken
from simulmt.decoding.policies.retranslation import Retranslation
from simulmt.decoding.policies.wait_k import WaitK
from simulmt.decoding.policy import Policy

OWN = "own"
"""The name of no policy: the model's own clock or schedules decide."""

POLICIES: dict[str, type[Policy]] = {
    "wait_k": WaitK,
    "hold_n": HoldN,
    "local_agreement": LocalAgreement,
    "adaptive_wait_k": AdaptiveWaitK,
    "align_att": AlignAtt,
    "ed_att": EDAtt,
    "confidence": Confidence,
    "newest_token": NewestToken,
    "retranslation": Retranslation,
    "from_file": FromFile,
}
"""What `policy.name` can name beside `own`."""


def name_of(policy: Policy | None) -> str:
    """Return the name of a policy in a configuration; of an unnamed one, that of its class."""
    return next((n for n, kind in POLICIES.items() if kind is type(policy)), type(policy).__name__)
