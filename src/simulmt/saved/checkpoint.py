"""Trained models on disk: checkpoints and exported folders. Loading one runs no code of it.

A checkpoint is what Lightning writes, with a passport beside the weights: configuration, subword
model, and manifest of the data. An exported folder holds the same in open formats
(`simulmt.saved.exported`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from simulmt.data.subwords import Subwords
from simulmt.errors import UserError
from simulmt.saved import exported
from simulmt.saved.trained import Trained

_PREFIX = "model."


def load(place: Path) -> Trained:
    """Read what stands for a run directory, a `.ckpt` file or an exported folder.

    Raises:
        UserError: there is none, or a damaged one.
    """
    path = find_checkpoint(place)
    return exported.read(path) if path.is_dir() else _trained(path)


def load_subwords(place: Path) -> Subwords:
    """Read a SentencePiece file, or the subwords of what `load` reads.

    Raises:
        UserError: there is none, or none that can be used.
    """
    is_model = place.is_file() and place.suffix != ".ckpt"
    return Subwords.load(place) if is_model else load(place).subwords


def passport(
    config: Mapping[str, Any], subwords: Subwords, manifest: Mapping[str, object]
) -> dict[str, Any]:
    """What travels with the weights, in types that `torch.load(weights_only=True)` admits."""
    model = torch.frombuffer(bytearray(subwords.model), dtype=torch.uint8)
    return {"config": config, "subwords": model, "manifest": manifest}


def find_checkpoint(place: Path) -> Path:
    """What stands for a run: the average if there is one, else the best.

    Returns:
        A file, or an exported folder.

    Raises:
        UserError: neither a checkpoint, nor the directory of a run that has one, nor exported.
    """
    if place.is_file() or exported.is_exported(place):
        return place
    for name in ("average.ckpt", "best.ckpt"):
        if (place / "checkpoints" / name).is_file():
            return place / "checkpoints" / name
    raise UserError(
        f"no checkpoint at {place}: give a .ckpt file, a run directory whose checkpoints/ holds "
        "best.ckpt or average.ckpt, or a folder that export.py wrote"
    )


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Load a checkpoint without executing anything from it.

    Raises:
        UserError: the file is damaged or not one of ours.
    """
    try:
        checkpoint: Any = torch.load(path, map_location="cpu", weights_only=True)
    except (FileNotFoundError, PermissionError) as error:
        raise UserError(f"{path} cannot be read ({error.strerror})") from None
    except Exception:  # torch raises all kinds, and its messages advise to trust the file
        raise UserError(
            f"{path} is no readable checkpoint: it is another kind of file, or damaged"
        ) from None
    told = checkpoint.get("simulmt") if isinstance(checkpoint, dict) else None
    if not isinstance(told, dict) or not {"config", "subwords", "manifest"} <= {*told}:
        raise UserError(f"{path} is a checkpoint, but none that simulmt wrote")
    return dict(checkpoint)


def load_weights(model: nn.Module, path: Path) -> None:
    """Load all parameters; the model must be the same."""
    model.load_state_dict(_weights(read_checkpoint(path)))


def load_matching(model: nn.Module, trained: Trained) -> tuple[int, int]:
    """Load the parameters whose name and shape match, such as those of another mechanism.

    Returns:
        How many tensors were taken, and how many the model has.

    Raises:
        UserError: nothing matches.
    """
    own = model.state_dict()
    found = trained.weights
    matching = {n: v for n, v in found.items() if n in own and own[n].shape == v.shape}
    if not matching:
        raise UserError(
            f"init_from={trained.path}: no parameter has the name and shape of one here"
        )
    model.load_state_dict(matching, strict=False)
    return len(matching), len(own)


def average_checkpoints(paths: Sequence[Path], target: Path) -> None:
    """Write the mean of the weights of several checkpoints of one run."""
    newest = read_checkpoint(paths[-1])
    states = [read_checkpoint(path)["state_dict"] for path in paths]
    mean = {
        name: torch.stack([state[name].double() for state in states]).mean(0).to(value.dtype)
        for name, value in newest["state_dict"].items()
    }
    unfinished = target.with_suffix(".tmp")
    torch.save({"state_dict": mean, "simulmt": newest["simulmt"]}, unfinished)
    unfinished.replace(target)


def _trained(path: Path) -> Trained:
    checkpoint = read_checkpoint(path)
    told = checkpoint["simulmt"]
    try:
        subwords = Subwords(bytes(told["subwords"].tolist()))
        weights = _weights(checkpoint)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UserError(f"{path} is damaged: what simulmt wrote into it is not whole") from None
    return Trained(path, told["config"], told["manifest"], subwords, weights)


def _weights(checkpoint: Mapping[str, Any]) -> dict[str, Tensor]:
    states = checkpoint["state_dict"]
    ours = (name for name in states if name.startswith(_PREFIX))  # a teacher stays behind
    return {name.removeprefix(_PREFIX): states[name] for name in ours}
