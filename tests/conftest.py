"""One thread each: the tensors are small, and the tests may share the machine."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
