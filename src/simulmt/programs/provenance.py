"""Where a training comes from: the command, the commit, the versions and the machine."""

import os
import platform
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import version
from pathlib import Path

import torch

from simulmt.run_directory import Provenance

COMMAND = "SIMULMT_COMMAND"
"""Environment variable with the command of a sweep, for the processes of its runs."""
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
    versions |= {"cuda": torch.version.cuda} if torch.version.cuda else {}
    on_gpu = accelerator != "cpu" and torch.cuda.is_available()
    return Provenance(
        command=os.environ.get(COMMAND) or command(),
        started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        commit=_commit(Path(__file__)),
        versions=versions,
        host=socket.gethostname(),
        device=torch.cuda.get_device_name() if on_gpu else processor(),
        job=os.environ.get("SLURM_JOB_ID"),
    )


def command() -> str:
    """Return the command line of this process."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def _commit(file: Path) -> str | None:
    """Return the commit of the clone that tracks a file; None if there is none, or no git."""
    git = partial(
        subprocess.check_output, cwd=file.parent, stderr=subprocess.DEVNULL, text=True, timeout=10
    )
    try:
        git(
            ["git", "ls-files", "--error-unmatch", file.name]
        )  # else the clone is that of another project
        changed = git(["git", "status", "--porcelain", "--untracked-files=no"])
        return git(["git", "rev-parse", "HEAD"]).strip() + ("-dirty" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def processor() -> str:
    """Return the name of the processor, as well as the system tells it."""
    described = Path("/proc/cpuinfo")
    text = described.read_text(encoding="utf-8") if described.exists() else ""
    named = re.search(r"^model name\s*: (.*)", text, re.MULTILINE)
    return named[1] if named else platform.processor() or platform.machine()
