"""Checkpoints: weights beside their passport (config, subwords, manifest); loading runs no code."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from simulmt.data.subwords import Subwords
from simulmt.errors import UserError

_PREFIX = "model."


def passport(
    config: Mapping[str, Any], subwords: Subwords, manifest: Mapping[str, object]
) -> dict[str, Any]:
    """What travels with the weights, in types that `torch.load(weights_only=True)` admits."""
    model = torch.frombuffer(bytearray(subwords.model), dtype=torch.uint8)
    return {"config": config, "subwords": model, "manifest": manifest}


def read_subwords(checkpoint: Mapping[str, Any]) -> Subwords:
    """The subword model of a checkpoint."""
    return Subwords(bytes(checkpoint["simulmt"]["subwords"].tolist()))


def run_checkpoint(run: Path) -> Path:
    """The checkpoint that stands for a run: the average if there is one, else the best.

    Raises:
        UserError: neither a checkpoint nor the directory of a run that has one.
    """
    if run.is_file():
        return run
    folder = run / "checkpoints"
    for name in ("average.ckpt", "best.ckpt"):
        if (folder / name).is_file():
            return folder / name
    raise UserError(
        f"no checkpoint at {run}: give a .ckpt file, or a run directory whose checkpoints/ holds "
        "best.ckpt or average.ckpt"
    )


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Load a checkpoint without executing anything from it.

    Raises:
        UserError: the file is damaged or not one of ours.
    """
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path} is no readable checkpoint ({reason})") from None
    if not isinstance(checkpoint, dict) or "simulmt" not in checkpoint:
        raise UserError(f"{path} is a checkpoint, but none that simulmt wrote")
    return checkpoint


def weights_of(checkpoint: Mapping[str, Any]) -> dict[str, Tensor]:
    """The model's parameters in a checkpoint."""
    states = checkpoint["state_dict"]
    return {name.removeprefix(_PREFIX): value for name, value in states.items()}


def load_weights(model: nn.Module, path: Path) -> None:
    """Load all parameters; the model must be the same."""
    model.load_state_dict(weights_of(read_checkpoint(path)))


def load_matching(model: nn.Module, checkpoint: Mapping[str, Any], name: str) -> tuple[int, int]:
    """Load the parameters whose name and shape match, such as those of another mechanism.

    Returns:
        How many tensors were taken, and how many the model has.

    Raises:
        UserError: nothing matches.
    """
    own = model.state_dict()
    found = weights_of(checkpoint)
    matching = {n: v for n, v in found.items() if n in own and own[n].shape == v.shape}
    if not matching:
        raise UserError(f"init_from={name}: no parameter has the name and shape of one here")
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
