"""Opens a file that `torch.save` wrote, once its structure and its checksums have been checked."""

import pickletools
import re
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch
from torch import Tensor

from simulmt.errors import UserError

_OURS = re.compile(r"collections OrderedDict|torch\._utils _rebuild_tensor_v2|torch \w+Storage")
"""What our checkpoints are made of; torch allows more, which could fill the memory."""
_FOLDER = 0x10  # of a member's attributes, as DOS has them
_PRECISIONS = (torch.float32, torch.float64)


def open_archive(path: Path, remedy: str = "take another checkpoint, or train anew") -> Any:
    """Return the content of an archive; nothing in it is executed, and it has what was written.

    torch itself compares no checksums. Comparing them takes as long as loading does.

    Args:
        path: the archive.
        remedy: what to do if it cannot be read, for the message.

    Raises:
        UserError: the file cannot be read, is damaged, or could grow when it is read.
    """
    try:
        if path.exists() and not path.is_file():
            raise ValueError
        _check(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error})") from None
    except Exception:  # of any type; torch's messages advise to trust the file
        raise UserError(
            f"{path} is no readable checkpoint: it is another kind of file, or damaged; {remedy}"
        ) from None


def _check(path: Path) -> None:
    """Raise an error of any type unless torch can read an archive as it was written.

    Members are neither compressed nor do they overlap, so that they take no more memory than the
    file has bytes, and pickles hold plain values and tensors only.
    """
    with ZipFile(path) as archive:
        members = archive.infolist()
        names = {member.filename.lower() for member in members}  # torch ignores the case
        if sum(member.file_size for member in members) > path.stat().st_size:
            raise ValueError("it grows")
        if any(member.external_attr & _FOLDER for member in members):
            raise ValueError("torch would read nothing")
        if len(names) < len(members) or archive.testzip() is not None:
            raise ValueError("it is damaged")
        for member in members:
            if member.filename.lower().endswith(".pkl"):
                for operation, argument, _ in pickletools.genops(archive.read(member)):
                    if operation.name == "GLOBAL" and not _OURS.fullmatch(str(argument)):
                        raise ValueError("it holds something else than values and tensors")


def is_whole(value: object) -> bool:
    """Return whether a value is a tensor that has a place in memory for each of its numbers."""
    if not isinstance(value, Tensor) or value.layout is not torch.strided:
        return False
    return value.numel() * value.element_size() <= value.untyped_storage().nbytes()


def check_weights(path: Path, weights: object) -> dict[str, Tensor]:
    """Return the parameters of a model, which are finite floats of one precision.

    Raises:
        UserError: the first parameter that is something else.
    """
    if not isinstance(weights, dict):
        raise UserError(f"{path} is damaged: it lacks weights")
    for name, value in weights.items():
        if not isinstance(name, str) or not is_whole(value) or value.dtype not in _PRECISIONS:
            raise UserError(
                f"{path} is damaged: its parameter {name!r:.80} is no tensor of 32 or 64-bit floats"
            )
        if not value.isfinite().all():
            raise UserError(
                f"{path}: its parameter {name} is not finite; take an earlier checkpoint, or train "
                "the model anew with a lower optim.lr"
            )
    if len({value.dtype for value in weights.values()}) > 1:
        raise UserError(f"{path} is damaged: its parameters are of several precisions")
    return weights
