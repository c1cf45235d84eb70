"""Parameters that stand still at first, while those of a new policy learn."""

from typing import NamedTuple

from torch import nn


class Frozen(NamedTuple):
    """The parameters that the first updates leave as they are."""

    names: frozenset[str] = frozenset()
    updates: int = 0

    def drop_gradients(self, model: nn.Module, update: int) -> None:
        """Remove the gradients that an update (from 0) must not apply, nor clip others by."""
        if update < self.updates:
            for name, parameter in model.named_parameters():
                if name in self.names:
                    parameter.grad = None


NOTHING_FROZEN = Frozen()
