"""Kernels compute the same just compiled as from the disk: a first run equals all later ones."""

import os
import subprocess
import sys

DIGEST = """
import hashlib, torch
from simulmt.ops import expected_attention
torch.manual_seed(1)
alpha, energy = (torch.rand(6, 9, 30, requires_grad=True) for _ in range(2))
beta = expected_attention(alpha, energy)
gradients = torch.autograd.grad((beta * torch.rand_like(beta)).sum(), [alpha, energy])
values = b"".join(x.detach().numpy().tobytes() for x in (beta, *gradients))
print(hashlib.sha256(values).hexdigest())
"""


def test_a_kernel_from_the_disk_computes_what_it_did_when_compiled(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", DIGEST]
    compiled, loaded = (
        subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout
        for _ in range(2)
    )
    assert any(tmp_path.rglob("*.nbc")), "the first process should keep its machine code"
    assert compiled == loaded
