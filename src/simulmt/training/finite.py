"""The guard against NaN and infinity: an update that is not finite is never applied.

The guard works on the device, so that no update waits for it. It reports at the next line of the
log, or before the next validation, and so before a checkpoint could keep anything that is not
finite.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from simulmt.errors import UserError

_REMEDY = (
    "lower optim.lr or a weight of the losses (lambda, lambda_var, objective.terms, "
    "teacher.lambda_kd)"
)


class FiniteUpdates:
    """Skips each update whose loss or gradient is not finite.

    Args:
        skip: the number of such updates in a row that training survives.
    """

    def __init__(self, skip: int) -> None:
        self.skip = skip
        self._row, self._longest = torch.zeros(()), torch.zeros(())
        self._first = torch.full((3,), torch.nan)  # update, loss and norm of the first one

    def judge(
        self,
        optimizer: torch.optim.Optimizer,
        update: int,
        loss: Float[Tensor, ""],
        norm: Float[Tensor, ""],
    ) -> None:
        """Let the optimiser skip this update if it is not finite.

        Args:
            optimizer: a fused optimiser of torch, which skips a step where `found_inf` is 1.
            update: the number of the update, from 1.
            loss: the loss for each token, of all processes.
            norm: the norm of the gradient, of all processes.
        """
        bad = ~(loss + norm).isfinite()
        optimizer.found_inf = bad.float()  # type: ignore[attr-defined]
        self._row = (self._row.to(bad.device) + 1) * bad
        self._longest = self._longest.to(bad.device).maximum(self._row)
        figures = torch.stack([torch.full_like(loss, update), loss, norm])
        first = self._first.to(bad.device)
        self._first = figures.where(bad & first[0].isnan(), first)

    def check(self) -> None:
        """Wait for the device, and end the training if too many updates were not finite.

        Raises:
            UserError: more than `skip` updates in a row were not finite.
        """
        if self._longest > self.skip:
            update, loss, norm = self._first.tolist()
            raise UserError(
                f"update {update:,.0f} is not finite: its loss is {loss:.4g}, the norm of its "
                f"gradient {norm:.4g}; {_REMEDY}, or skip a few such updates with trainer.skip"
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
