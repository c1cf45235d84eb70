"""Loading of checkpoints and exported folders, which never runs code from a file.

A checkpoint of Lightning has a passport beside the weights: configuration, subword model, manifest
of the data, and the plugins that it needs. An exported folder holds the same in open formats
(`simulmt.saved.exported`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from simulmt.data.subwords import SUBWORDS, Subwords
from simulmt.data.tokenizer import Tokenizer
from simulmt.data.tokenizers import tokenizer_of
from simulmt.errors import UserError
from simulmt.options import Config, convert
from simulmt.parts import needed_by
from simulmt.run_directory import AVERAGE, BEST, replacing, tested_checkpoint
from simulmt.saved import exported
from simulmt.saved.archive import check_weights, is_whole, open_archive
from simulmt.saved.trained import Trained, fill
from simulmt.untrusted import check_plain

_PREFIX = "model."


def load(place: Path) -> Trained:
    """Return a trained model.

    Args:
        place: a `.ckpt` file, an exported folder, or a run, of which the tested checkpoint counts.

    Raises:
        UserError: there is no trained model, or it is damaged.
    """
    whole = place.is_file() or exported.is_exported(place)
    path = place if whole else tested_checkpoint(place)
    if path is None:
        raise UserError(
            f"no checkpoint at {place}: give a .ckpt file, a run directory that holds {BEST} or "
            f"{AVERAGE}, or a folder that `simulmt export` wrote"
        )
    if path.is_dir():
        return exported.read(path)
    checkpoint = read_checkpoint(path)
    kept = checkpoint["simulmt"]
    files = {name: part.numpy().tobytes() for name, part in _files(kept["subwords"]).items()}
    try:
        subwords = tokenizer_of(files)
    except UserError as error:
        raise UserError(f"{path} is damaged: {error}") from None
    weights = _weights(checkpoint)
    return Trained(path, kept["config"], kept["manifest"], kept["needs"], subwords, weights)


def load_subwords(place: Path) -> Tokenizer:
    """Return the subwords of a SentencePiece file or of a trained model.

    Raises:
        UserError: there is no readable file or model.
    """
    is_model = place.is_file() and place.suffix != Path(BEST).suffix
    return Subwords.load(place) if is_model else load(place).subwords


def passport(config: Config, subwords: Tokenizer, manifest: Mapping[str, object]) -> dict[str, Any]:
    """Return the passport of the weights, in types that `torch.load(weights_only=True)` reads."""
    files = {
        name: torch.frombuffer(bytearray(content), dtype=torch.uint8)
        for name, content in subwords.files.items()
    }
    kept = files.get(SUBWORDS, files)
    needs = needed_by(config)
    return {"config": config, "subwords": kept, "manifest": manifest, "needs": needs}


def _files(kept: Any) -> Any:
    """Return the files of the subwords in a passport: one model alone, or several by name."""
    return {SUBWORDS: kept} if isinstance(kept, Tensor) else kept


def read_checkpoint(path: Path) -> Config:
    """Return the content of a checkpoint file: checked weights and passport, beside the rest.

    Raises:
        UserError: the file is damaged, or simulmt did not write it.
    """
    checkpoint = open_archive(path)
    kept = checkpoint.get("simulmt") if isinstance(checkpoint, dict) else None
    if not isinstance(kept, dict) or not {"config", "subwords", "manifest", "needs"} <= {*kept}:
        raise UserError(f"{path} is a checkpoint, but none that simulmt wrote")
    for name in ("config", "manifest", "needs"):
        try:
            check_plain(convert(kept[name], dict))
        except ValueError as error:
            raise UserError(f"{path} is damaged: in its {name}, {error}") from None
    files = _files(kept["subwords"])
    if not isinstance(files, dict) or not all(map(_is_bytes, files.values())):
        raise UserError(f"{path} is damaged: it lacks subwords")
    check_weights(path, checkpoint.get("state_dict"))
    return dict(checkpoint)


def _is_bytes(value: object) -> bool:
    return isinstance(value, Tensor) and is_whole(value) and value.dtype is torch.uint8


def load_weights(model: nn.Module, path: Path) -> int:
    """Load all parameters of the same model.

    Returns:
        The update that they are of; 0 for a mean of checkpoints.

    Raises:
        UserError: as for `read_checkpoint`; or they are those of another model.
    """
    checkpoint = read_checkpoint(path)
    fill(model, _weights(checkpoint), path)
    return int(checkpoint.get("global_step", 0))


@dataclass(frozen=True)
class Matched:
    """The tensors of a model by what another model had for them.

    Attributes:
        loaded: The names of those that the other one had.
        absent: The names of those that it had not.
        reshaped: The names of those that it had in another shape.
    """

    loaded: Sequence[str]
    absent: Sequence[str]
    reshaped: Sequence[str]


def load_matching(model: nn.Module, trained: Trained) -> Matched:
    """Load the parameters whose names and shapes match, for instance of another mechanism.

    Returns:
        What was loaded, and what was not.

    Raises:
        UserError: no parameter matches.
    """
    own = model.state_dict()
    matching = {
        name: value
        for name, value in trained.weights.items()
        if name in own and own[name].shape == value.shape
    }
    if not matching:
        raise UserError(
            f"init_from={trained.path}: no parameter has the name and shape of one here"
        )
    model.load_state_dict(matching, strict=False)
    return Matched(
        loaded=[*matching],
        absent=[name for name in own if name not in trained.weights],
        reshaped=[name for name in own if name in trained.weights and name not in matching],
    )


def average_checkpoints(paths: Sequence[Path], target: Path) -> None:
    """Write the mean of the weights of several checkpoints of one run.

    Raises:
        UserError: one of them is damaged, or holds another model.
    """
    checkpoints = [read_checkpoint(path) for path in paths]
    states, newest = [checkpoint["state_dict"] for checkpoint in checkpoints], checkpoints[-1]
    shapes = [{name: value.shape for name, value in state.items()} for state in states]
    for path, found in zip(paths, shapes, strict=True):
        if found != shapes[-1]:
            raise UserError(f"{path} holds another model than {paths[-1]}; train the run anew")
    mean = {
        name: torch.stack([state[name].double() for state in states]).mean(0).to(value.dtype)
        for name, value in newest["state_dict"].items()
    }
    with replacing(target) as unfinished, unfinished.open("wb") as file:
        torch.save({"state_dict": mean, "simulmt": newest["simulmt"]}, file)


def _weights(checkpoint: Config) -> dict[str, Tensor]:
    states = checkpoint["state_dict"]
    ours = (name for name in states if name.startswith(_PREFIX))  # without the teacher's
    return {name.removeprefix(_PREFIX): states[name] for name in ours}
