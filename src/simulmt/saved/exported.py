"""A trained model as a folder in open formats, to be shared; the folder holds no code.

model.safetensors   the weights
config.json         the version, the configuration, the manifest of the training data, the plugins
                    that it needs, SHA-256
subwords.model      the SentencePiece model; of a Marian model source.spm, target.spm, vocab.json
                    and special_ids.json
scores.json         the scores on the test set, if known
provenance.json     the command, the versions and the machine of the training, if known
README.md           a model card
"""

import json
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from simulmt import __version__
from simulmt.data.subwords import load_tokenizer
from simulmt.data.tokenizer import Tokenizer
from simulmt.errors import UserError
from simulmt.files.run_directory import CONFIG, WEIGHTS
from simulmt.options import SAME_RUN, Config, is_below
from simulmt.saved.trained import Trained, check_finite
from simulmt.system.disk import read_json, write_json, writing

CARD = "README.md"
_NOT_THE_MODEL = (*SAME_RUN, "trainer", "callbacks", "init_from", "init_freeze", "teacher")
"""Options of training and machine, which an exported model leaves out."""


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield an unfinished folder; once the caller has filled it, it is renamed to `folder`.

    Args:
        folder: new or empty; created if absent.

    Raises:
        UserError: the folder is not empty, or cannot be written.
    """
    folder = folder.resolve()  # an empty one may be a link
    unfinished = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.tmp")
    with writing(folder):
        if folder.exists() and any(folder.iterdir()):
            raise UserError(f"{folder} is not empty; give a new folder, or empty that one")
        try:
            unfinished.mkdir(parents=True)
            yield unfinished
            unfinished.replace(folder)  # fails if it is no longer empty
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def write(
    trained: Trained, folder: Path, records: Mapping[str, object], results: Sequence[str] = ()
) -> None:
    """Write a trained model into a new or empty folder, whole or not at all.

    Args:
        trained: the model.
        folder: created if absent.
        records: further dataclasses to write as JSON, by the names of their files.
        results: the lines of the model card about its test set, as Markdown.

    Raises:
        UserError: the folder is not empty, or cannot be written.
    """
    described = {
        "version": __version__,
        "config": {k: v for k, v in trained.config.items() if not is_below(k, _NOT_THE_MODEL)},
        "manifest": asdict(trained.manifest),
        "needs": trained.needs,
    }
    tensors = {name: value.contiguous().clone() for name, value in trained.weights.items()}
    weights = save(tensors, metadata={"format": "pt"})
    with new_folder(folder) as unfinished:
        for name, content in {WEIGHTS: weights, **trained.subwords.files}.items():
            (unfinished / name).write_bytes(content)
        digests = _digests(described, trained.subwords, weights)
        write_json(unfinished / CONFIG, {**described, "sha256": digests})
        for name, record in records.items():
            write_json(unfinished / name, record)
        (unfinished / CARD).write_text(card(trained, results), encoding="utf-8", newline="\n")


def read(folder: Path) -> Trained:
    """Return the model of a folder that `write` made.

    Raises:
        UserError: a file is corrupt or was changed.
    """
    described = read_json(folder / CONFIG)
    if "model_type" in described:
        raise UserError(
            f"{folder} holds a model in the format of transformers: run `simulmt import "
            f"from={folder} to=NEW`, and give NEW instead"
        )
    subwords, content = load_tokenizer(folder), (folder / WEIGHTS).read_bytes()
    written = described.pop("sha256", {})  # absent if a user removed it to edit the files
    for name, digest in _digests(described, subwords, content).items():
        if written and written.get(name) != digest:
            raise UserError(
                f"{folder / name} is corrupt or was changed: export the model again, or remove "
                f"sha256 from {CONFIG} to use the folder as it is"
            )
    return Trained.read(folder, described, subwords, read_tensors(folder / WEIGHTS, content))


def read_tensors(path: Path, content: bytes) -> dict[str, Tensor]:
    """Return the tensors in the content of a safetensors file.

    Raises:
        UserError: it is not such a file, or a tensor is not of finite floats.
    """
    try:
        tensors = load(content)
    except SafetensorError as error:
        raise UserError(f"{path} is not a safetensors file ({error})") from None
    check_finite(path, tensors)
    return tensors


def _digests(described: Config, subwords: Tokenizer, weights: bytes) -> dict[str, str]:
    """Return the SHA-256 of each file; that of `config.json` is of what it describes."""
    text = json.dumps(described, sort_keys=True).encode()
    contents = {WEIGHTS: weights, CONFIG: text, **subwords.files}
    return {name: sha256(content).hexdigest() for name, content in contents.items()}


def card(trained: Trained, results: Sequence[str]) -> str:
    """Return the model card as Markdown."""
    setup, manifest = trained.setup, trained.manifest
    facts = {
        "task": f"simultaneous translation, {manifest.pair}",
        "mechanism": _listed({**setup.mechanism, **setup.weights}),
        "model": _listed(setup.model),
        "parameters": f"{sum(value.numel() for value in trained.weights.values()):,}",
        "subwords": f"{len(trained.subwords):,} ({', '.join(trained.subwords.files)})",
        "data": f"unknown: imported from {manifest.name}",
        "made with": f"simulmt {__version__}",
    }
    if train := manifest.splits.get("train"):
        facts["data"] = f"{manifest.name}, {train.pairs:,} training pairs"
    if manifest.licence:
        facts["licence"] = manifest.licence
    if trained.needs:
        facts["needs"] = ", ".join(f"{name} {version}" for name, version in trained.needs.items())
    lines = [f"# {setup.mechanism['name']} on {setup.model['name']}, {manifest.pair}", ""]
    lines += [f"- **{name}**: {value}" for name, value in facts.items()]
    if results:
        lines += ["", "## On its test set", "", *results]
    lines += [
        "", "## Use", "", "```bash", "simulmt translate checkpoint=THIS_FOLDER", "```", "",
        "```python", "from simulmt.live.translator import Translator", "",
        'translator = Translator.load("THIS_FOLDER")',
        'translator.read("word")  # the words of the translation that are now decided',
        "translator.finish()      # the rest", "```",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _listed(options: Config) -> str:
    rest = [f"{key}={value}" for key, value in options.items() if key != "name"]
    return ", ".join([str(options["name"]), *rest])
