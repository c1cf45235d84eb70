"""Where a training comes from: the command, the commit, the versions and the machine."""

import os
import platform
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import torch

from simulmt.cli import COMMAND
from simulmt.run_directory import Provenance

_NONE: Mapping[str, str] = {}
_PACKAGES = ("simulmt", "pytorch-lightning", "numba", "sentencepiece", "sacrebleu")


def provenance(accelerator: str, plugins: Mapping[str, str] = _NONE) -> Provenance:
    """Return the provenance of a training that starts now.

    Args:
        accelerator: `cpu`, `gpu` or `auto`, which is a GPU if there is one.
        plugins: the versions of the plugins that bring a part of the model, by module.
    """
    versions = {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}
    versions |= {
        "torch": str(torch.__version__),
        **plugins,
    }  # its build, which a wheel need not name
    if cuda := torch.version.cuda:
        versions["cuda"] = cuda
    on_gpu = accelerator != "cpu" and torch.cuda.is_available()
    return Provenance(
        command=os.environ.get(COMMAND) or shlex.join(sys.orig_argv),
        started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        commit=_commit(Path(__file__)),
        versions=versions,
        host=socket.gethostname(),
        device=torch.cuda.get_device_name() if on_gpu else processor(),
        job=os.environ.get("SLURM_JOB_ID"),
    )


def _commit(file: Path) -> str | None:
    """Return the commit of the clone that tracks a file; None if there is none, or no git."""

    def git(*arguments: str) -> str:
        line = ["git", "-C", str(file.parent), *arguments]
        done = subprocess.run(line, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", file.name)  # else the clone is that of another project
        dirty = "-dirty" if git("status", "--porcelain", "--untracked-files=no") else ""
        return git("rev-parse", "HEAD") + dirty
    except (OSError, subprocess.SubprocessError):
        return None


def processor() -> str:
    """Return the name of the processor, as well as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
