"""Where a training run comes from: the command, the commit, the versions and the machine."""

import os
import platform
import re
import shlex
import socket
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from subprocess import DEVNULL, SubprocessError, check_output

import torch

from simulmt.files.run_directory import Provenance
from simulmt.programs.cli import COMMAND

_PACKAGES = ("simulmt", "pytorch-lightning", "numba", "sentencepiece", "sacrebleu")


def provenance(
    accelerator: str,
    plugins: Mapping[str, str],
    init_sha256: str | None = None,
    teacher_sha256: str | None = None,
) -> Provenance:
    """Return the provenance of a training run that starts now.

    Args:
        accelerator: `cpu`, `gpu`, or `auto` for a GPU if there is one.
        plugins: the versions of the plugins that bring a part of the model, by module.
        init_sha256: the digest of the checkpoint of `init_from`.
        teacher_sha256: that of the teacher, or of the file of its stops.
    """
    versions = {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}
    versions |= {"torch": str(torch.__version__), **plugins}  # torch's build, which no wheel names
    versions |= {"cuda": torch.version.cuda} if torch.version.cuda else {}
    on_gpu = accelerator != "cpu" and torch.cuda.is_available()
    return Provenance(
        command=os.environ.get(COMMAND) or shlex.join(sys.orig_argv),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=_commit(Path(__file__)),
        versions=versions,
        host=socket.gethostname(),
        device=torch.cuda.get_device_name() if on_gpu else processor(),
        job=os.environ.get("SLURM_JOB_ID"),
        init_sha256=init_sha256,
        teacher_sha256=teacher_sha256,
    )


def _commit(file: Path) -> str | None:
    """Return the commit of the clone that tracks a file; None if there is none, or no git."""
    git = partial(check_output, cwd=file.parent, stderr=DEVNULL, text=True, timeout=10)
    try:  # `ls-files` fails in the clone of another project
        git(["git", "ls-files", "--error-unmatch", file.name])
        commit = git(["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"])
        return str(commit).strip()
    except (OSError, SubprocessError):
        return None


def processor() -> str:
    """Return the name of the processor, as far as the system has one."""
    described = Path("/proc/cpuinfo")
    text = described.read_text(encoding="utf-8") if described.exists() else ""
    named = re.search(r"^model name\s*: (.*)", text, re.MULTILINE)
    return named[1] if named else platform.processor() or platform.machine()
