"""Checkpoints and exported folders are loaded here; no code from a file ever runs.

Besides the weights, a Lightning checkpoint holds a passport: configuration, subword model, manifest
of the data, and the plugins that it needs. An exported folder holds the same in open formats
(`simulmt.saved.exported`).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter
from zipfile import ZipFile, is_zipfile

import torch
from torch import Tensor, nn

from simulmt.data.manifest import Manifest
from simulmt.data.subwords import SUBWORDS, Subwords, tokenizer_of
from simulmt.data.tokenizer import Tokenizer
from simulmt.errors import UserError
from simulmt.files.run_directory import AVERAGE, BEST, WEIGHTS, is_exported, tested_checkpoint
from simulmt.options import Config
from simulmt.parts import needed_by
from simulmt.saved import exported
from simulmt.saved.trained import Trained, check_finite, fill
from simulmt.system.disk import replacing

_PREFIX = "model."
_FOLDER = 0x10  # in the attributes of a zip member


def load(place: Path, option: str = "checkpoint") -> Trained:
    """Return a trained model.

    Args:
        place: a `.ckpt` file, an exported folder, or a run, whose tested checkpoint is taken.
        option: the option that names it, for messages.

    Raises:
        UserError: there is no trained model, or it is corrupt.
    """
    if (path := _found(place)) is None:
        raise UserError(
            f"no checkpoint at {option}={place}: give a .ckpt file, a run directory that holds "
            f"{BEST} or {AVERAGE}, or a folder that `simulmt export` or `simulmt import` wrote"
        )
    if path.is_dir():
        return exported.read(path)
    checkpoint = read_checkpoint(path)
    passport = checkpoint["simulmt"]
    kept = passport.get("subwords", {})
    files = {SUBWORDS: kept} if isinstance(kept, Tensor) else kept
    subwords = tokenizer_of({name: part.numpy().tobytes() for name, part in files.items()})
    return Trained.read(path, passport, subwords, _weights(checkpoint))


def weights_file(place: Path) -> Path | None:
    """Return the file with the weights of a trained model, as for `load`; None if there is none."""
    path = _found(place)
    return path / WEIGHTS if path and path.is_dir() else path


def _found(place: Path) -> Path | None:
    place = place.expanduser()
    if place.is_file() and place.parent == Path():
        place = place.absolute()  # the folders above may be those of its run
    return place if place.is_file() or is_exported(place) else tested_checkpoint(place)


def load_subwords(place: Path) -> Tokenizer:
    """Return the subwords of a SentencePiece file or of a trained model.

    Raises:
        UserError: there is no readable file or model.
    """
    if not place.exists():
        raise UserError(
            f"data.subwords.model={place} does not exist: give a SentencePiece file or a trained "
            "model, or null to train new subwords"
        )
    is_model = place.is_file() and place.suffix != Path(BEST).suffix
    return Subwords.load(place) if is_model else load(place, "data.subwords.model").subwords


def passport(config: Config, subwords: Tokenizer, manifest: Manifest) -> dict[str, Any]:
    """Return the passport of the weights, in types that `torch.load(weights_only=True)` reads."""
    files = {
        name: torch.frombuffer(bytearray(content), dtype=torch.uint8)
        for name, content in subwords.files.items()
    }
    kept, needs = files.get(SUBWORDS, files), needed_by(config)
    return {"config": config, "subwords": kept, "manifest": asdict(manifest), "needs": needs}


def read_torch(path: Path) -> object:
    """Return what `torch.save` wrote; nothing in the file is executed.

    Raises:
        UserError: the file holds other types than plain values and tensors, or is corrupt.
    """
    try:
        if is_zipfile(path):
            with ZipFile(path) as archive:  # torch compares no checksums and rejects no folders
                folders = any(member.external_attr & _FOLDER for member in archive.infolist())
                if folders or archive.testzip():
                    raise ValueError("corrupt")
        with catch_warnings():  # torch's, of formats that an error below rejects
            simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of many types; torch's messages advise to trust the file
        why = f" ({error.strerror})" if isinstance(error, OSError) else ""
        raise UserError(
            f"{path} is not a checkpoint, or is corrupt{why}; use another one, or retrain"
        ) from None


def read_checkpoint(path: Path) -> Config:
    """Return the content of a checkpoint that simulmt wrote, with weights that are finite.

    Raises:
        UserError: the file is corrupt, or simulmt did not write it.
    """
    checkpoint = read_torch(path)
    found = checkpoint if isinstance(checkpoint, dict) else {}
    if not all(isinstance(found.get(part), dict) for part in ("simulmt", "state_dict")):
        raise UserError(f"{path} is a checkpoint, but not one that simulmt wrote")
    check_finite(path, found["state_dict"])
    return found


def load_weights(model: nn.Module, path: Path) -> int:
    """Load all parameters of the same model.

    Returns:
        The number of the update that saved them; 0 for a mean of checkpoints.

    Raises:
        UserError: as for `read_checkpoint`, or they belong to another model.
    """
    checkpoint = read_checkpoint(path)
    fill(model, _weights(checkpoint), path)
    return int(checkpoint.get("global_step", 0))


@dataclass(frozen=True)
class Matched:
    """The names of a model's tensors, by how they match those of another model.

    Attributes:
        loaded: Tensors that the other model has in the same shape.
        absent: Tensors that it lacks.
        reshaped: Tensors that it has in another shape.
        share: The part of the model's parameters that are in `loaded`.
    """

    loaded: Sequence[str]
    absent: Sequence[str]
    reshaped: Sequence[str]
    share: float

    def __str__(self) -> str:
        """Return how much of the model would be loaded."""
        total = len(self.loaded) + len(self.absent) + len(self.reshaped)
        share = f"{self.share:.1%} of the parameters"
        return f"{len(self.loaded)} of {total} parameter tensors ({share})"


def match_weights(model: nn.Module, trained: Trained) -> Matched:
    """Return which tensors match in name and shape, for example with another mechanism."""
    own, theirs = model.state_dict(), _unwrapped(trained)
    known = [name for name in own if _bare(name) in theirs]
    loaded = [name for name in known if own[name].shape == theirs[_bare(name)].shape]
    return Matched(
        loaded=loaded,
        absent=[name for name in own if name not in known],
        reshaped=[name for name in known if name not in loaded],
        share=sum(own[name].numel() for name in loaded) / sum(x.numel() for x in own.values()),
    )


def load_matching(model: nn.Module, trained: Trained) -> Matched:
    """Load the tensors that match."""
    found, theirs = match_weights(model, trained), _unwrapped(trained)
    model.load_state_dict({name: theirs[_bare(name)] for name in found.loaded}, strict=False)
    return found


def _bare(name: str) -> str:
    """Return the name of a tensor without the part that an attention around another one adds."""
    return name.replace("source_attention.attention.", "source_attention.")


def _unwrapped(trained: Trained) -> dict[str, Tensor]:
    return {_bare(name): tensor for name, tensor in trained.weights.items()}


def average_checkpoints(paths: Sequence[Path], target: Path) -> None:
    """Write the mean of the weights of several checkpoints of one run.

    Raises:
        UserError: one of them is corrupt.
    """
    checkpoints = [read_checkpoint(path) for path in paths]
    states, newest = [checkpoint["state_dict"] for checkpoint in checkpoints], checkpoints[-1]
    mean = {
        name: torch.stack([state[name].double() for state in states]).mean(0).to(value.dtype)
        for name, value in newest["state_dict"].items()
    }
    with replacing(target) as unfinished, unfinished.open("wb") as file:
        torch.save({"state_dict": mean, "simulmt": newest["simulmt"]}, file)


def _weights(checkpoint: Config) -> dict[str, Tensor]:
    states = checkpoint["state_dict"].items()  # among them a teacher's
    return {name[len(_PREFIX) :]: x for name, x in states if name.startswith(_PREFIX)}
