"""The initial weights of linear layers."""

from torch import nn


def xavier(*layers: nn.Linear, gain: float = 1.0) -> tuple[nn.Linear, ...]:
    """The layers, with uniform weights of Glorot & Bengio 2010 times `gain`, and biases of zero."""
    for layer in layers:
        nn.init.xavier_uniform_(layer.weight, gain)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return layers
