"""How training wants the machine; what is timed wants it so, too."""

from __future__ import annotations

from simulmt.training.allocator import keep_freed_memory
from simulmt.training.denormals import flush_denormals


def prepare_machine() -> None:
    """Set this process up, before its first tensors and threads."""
    keep_freed_memory()
    flush_denormals()
