"""The guard against NaN and infinity: neither reaches an update or a checkpoint.

The guard works on the device, so that no update waits for it. It reports at the next line of the
log, or before the next validation.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from simulmt.errors import UserError

_REMEDY = (
    "lower optim.lr, or the weights of the losses if you set any (lambda, lambda_var, "
    "objective.terms, teacher.lambda_kd)"
)


class FiniteUpdates:
    """Masks updates whose loss or gradient is not finite, and remembers them.

    Args:
        skip: the number of such updates in a row that are tolerated.
    """

    def __init__(self, skip: int) -> None:
        self._skip = skip
        self._row, self._skipped = torch.zeros(()), torch.zeros(())
        self._fatal = torch.full((3,), torch.nan)  # update, loss, norm

    def found_inf(
        self, update: int, loss: Float[Tensor, ""], norm: Float[Tensor, ""]
    ) -> Float[Tensor, ""]:
        """Return 1 for an update that Adam must skip, 0 for another.

        Args:
            update: the number of the update, from 1.
            loss: the loss for each token, of all processes.
            norm: the norm of the gradient, of all processes.
        """
        figures = torch.stack([torch.full_like(loss, update), loss, norm.to(loss.dtype)])
        bad = (~figures.isfinite().all()).float()
        self._row = (self._row.to(bad.device) + 1) * bad
        self._skipped = self._skipped.to(bad.device) + bad
        fatal = self._fatal.to(figures)
        self._fatal = figures.where((self._row > self._skip) & fatal[0].isnan(), fatal)
        return bad

    def skipped(self) -> int:
        """Return the number of updates skipped so far; waits for the device.

        Raises:
            UserError: too many updates in a row were not finite; names the last, and what to lower.
        """
        update, loss, norm, skipped = (*self._fatal.tolist(), self._skipped.item())
        if not math.isnan(update):
            row = f", the last of {self._skip + 1} in a row," if self._skip else ""
            raise UserError(
                f"update {update:,.0f}{row} is not finite: its loss is {loss:.4g}, the norm of its "
                f"gradient {norm:.4g}; {_REMEDY}"
            )
        return int(skipped)


def check_parameters(model: torch.nn.Module, update: int) -> None:
    """Reject parameters that are not finite.

    Args:
        model: the model in training.
        update: the number of updates so far.

    Raises:
        UserError: a parameter is not finite.
    """
    largest = torch.nn.utils.get_total_norm(model.parameters(), torch.inf)
    if not largest.isfinite():
        raise UserError(f"after {update:,} updates a parameter is {largest.item()}; {_REMEDY}")
