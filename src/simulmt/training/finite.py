"""The guard against NaN and infinity: training ends before a checkpoint keeps either.

The guard watches on the device, so that no update waits for it. It reports at the next line of the
log, or before the next validation.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from simulmt.errors import UserError

_REMEDY = (
    "lower optim.lr or a weight of the losses (lambda, lambda_var, objective.terms, "
    "teacher.lambda_kd)"
)


class FiniteUpdates:
    """Remembers the first update whose loss or gradient is not finite."""

    def __init__(self) -> None:
        self._first = torch.full((3,), torch.nan)  # update, loss, norm

    def watch(self, update: int, loss: Float[Tensor, ""], norm: Float[Tensor, ""]) -> None:
        """Look at an update without waiting for the device.

        Args:
            update: the number of the update, from 1.
            loss: the loss for each token, of all processes.
            norm: the norm of the gradient, of all processes.
        """
        first = self._first.to(loss.device)
        figures = torch.stack([torch.full_like(loss, update), loss, norm.to(loss.dtype)])
        self._first = figures.where(~(loss + norm).isfinite() & first[0].isnan(), first)

    def check(self) -> None:
        """Wait for the device, and end the training if an update was not finite.

        Raises:
            UserError: the first such update, its figures and what to lower.
        """
        update, loss, norm = self._first.tolist()
        if not math.isnan(update):
            raise UserError(
                f"update {update:,.0f} is not finite: its loss is {loss:.4g}, the norm of its "
                f"gradient {norm:.4g}; {_REMEDY}"
            )


def check_parameters(model: torch.nn.Module, update: int) -> None:
    """Refuse parameters that are not finite.

    Args:
        model: the model in training.
        update: the number of updates so far.

    Raises:
        UserError: a parameter is not finite.
    """
    largest = torch.nn.utils.get_total_norm(model.parameters(), torch.inf)
    if not largest.isfinite():
        raise UserError(f"after {update:,} updates a parameter is {largest.item()}; {_REMEDY}")
