"""Dropout as a layer of a model; in evaluation mode it changes nothing."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from simulmt.ops.dropout import dropout, dropout_added, dropout_relu


class Dropout(nn.Module):
    """Sets elements to 0 at random in training, and divides the others by the share that is kept.

    Args:
        p: the probability of 0.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    @property
    def active(self) -> bool:
        """True if the layer changes anything."""
        return self.training and self.p > 0

    def forward(self, x: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
        """`dropout(x)`."""
        return dropout(x, self.p) if self.active else x

    def added(self, x: Float[Tensor, "*N"], y: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
        """`x + dropout(y)`, for a residual connection."""
        return dropout_added(x, y, self.p) if self.active else x + y

    def rectified(self, x: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
        """`dropout(relu(x))`, for a hidden layer."""
        return dropout_relu(x, self.p) if self.active else functional.relu(x)
