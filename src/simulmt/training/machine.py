"""Settings of memory and processor for training; the benchmarks use them, too."""

import ctypes
import sys
from pathlib import Path

import torch

from simulmt.disk import check_space
from simulmt.run_directory import CHECKPOINTS

_OTHER_FILES = 1 << 20  # bytes
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of malloc.h


def prepare_machine(threads: int | None = None) -> None:
    """Make the C library keep freed memory, and the processor treat tiny numbers as zero.

    By default glibc returns a large tensor's memory to the system. The system zeroes each page
    again at its next use, after a page fault: a tenth of a small model's step. With these settings
    glibc keeps freed blocks of up to a gibibyte (older glibc: 32 MiB).

    An expected alignment decays with the distance from the head's position until it underflows.
    Some processors, Intel's among them, are very slow with float32 numbers below 1.2e-38.

    Args:
        threads: the threads of torch's operators; None leaves the number to torch.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:  # another C library
        return
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_TOP_PAD, 2**26)
    if mallopt(_MMAP_THRESHOLD, 2**30) == 0:  # refused
        mallopt(_MMAP_THRESHOLD, 2**25)


def check_disk(
    folder: Path, parameters: int, number_bytes: int, average: int, resumes: bool
) -> None:
    """Refuse a run whose checkpoints the disk cannot take.

    A checkpoint holds each parameter and Adam's two moments. A run keeps the best checkpoint, the
    last one and those of its average, while another one is written.

    Args:
        folder: the run directory.
        parameters: the number of parameters in a checkpoint.
        number_bytes: the size of a number.
        average: the number of checkpoints whose mean is tested.
        resumes: whether the checkpoints that are there give way to those of this run.

    Raises:
        UserError: they need more than is free.
    """
    files = 3 + average
    needed = _OTHER_FILES + files * 3 * number_bytes * parameters
    if resumes:
        needed -= sum(path.stat().st_size for path in folder.glob(f"{CHECKPOINTS}/*"))
    what = f"{files} checkpoints of {parameters:,} parameters and the other files"
    remedy = "choose another hydra.run.dir, or lower the sizes of the model or trainer.average"
    check_space(folder, needed, what, remedy)
