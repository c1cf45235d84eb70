"""The hashes that random numbers are made of, in torch's 64-bit words."""

from __future__ import annotations

import torch
from torch import Tensor

from simulmt.ops.dropout import STEPS


def by_the_book(seed: int, n: int) -> Tensor:
    """The hashes of elements 0..n-1, cut down to 32 bits after each product."""

    def mixed(x: Tensor) -> Tensor:
        for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
            x = ((x ^ x >> shift) * factor) % STEPS
        return x ^ x >> 15

    return mixed(mixed(torch.arange(n) ^ seed % STEPS) ^ seed // STEPS)
