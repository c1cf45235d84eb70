"""The search of the programs that translate lines."""

from simulmt.decoding.policies import name_of
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import Search
from simulmt.errors import UserError
from simulmt.models.model import Model
from simulmt.parts.builders import build_search
from simulmt.saved.trained import Trained


def line_search(
    trained: Trained,
    model: Model,
    policy: Policy | None,
    beam: int | None = None,
    length_penalty: float | None = None,
) -> Search:
    """Return the search of the training, greedy for a policy, with the options that are not None.

    Raises:
        UserError: an option is out of range, or has no effect.
    """
    chosen = {"beam": beam, "length_penalty": length_penalty}
    given = {name: value for name, value in chosen.items() if value is not None}
    usual = {"beam": 1} if policy else {}
    search = build_search({**trained.setup.decoding, **usual, **given}, model)
    if policy and not policy.beams and search.beam > 1:
        raise UserError(
            f"beam={beam} with policy={name_of(policy)}, which decides word by word: leave out "
            "beam, or choose a policy that uses whole drafts, such as local_agreement"
        )
    if search.beam == 1 and length_penalty is not None:
        raise UserError(
            f"length_penalty={length_penalty} has no effect on greedy decoding (beam=1): leave it "
            "out, or set beam to 2 or more (for a model that reads the whole sentence first)"
        )
    return search
