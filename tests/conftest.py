"""One thread each: the tensors are small, and the tests may share the machine."""

from __future__ import annotations

import os

import torch

torch.set_num_threads(1)
if os.environ.get("CHECK_SHAPES"):
    import shapes

    shapes.install()
