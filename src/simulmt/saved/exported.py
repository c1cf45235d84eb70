"""A trained model as a folder in open formats, to be given away: nothing in it can run.

model.safetensors   the weights
config.json         the version, the configuration, the manifest of the training data
subwords.model      the SentencePiece model
scores.json         what it scored on its test set, if that is known
README.md           the same for people
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save

from simulmt import __version__
from simulmt.data.subwords import Subwords
from simulmt.errors import UserError
from simulmt.options import SAME_RUN
from simulmt.saved.trained import Trained

WEIGHTS, CONFIG, SUBWORDS = "model.safetensors", "config.json", "subwords.model"
SCORES, CARD = "scores.json", "README.md"
_NOT_THE_MODEL = (
    *SAME_RUN,
    "trainer",  # how it was trained
    "init_from",  # from and by whom, files of one machine
    "teacher",
)


def is_exported(folder: Path) -> bool:
    """Whether `write` made this folder."""
    return (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file()


def write(trained: Trained, folder: Path, scores: Mapping[str, Any] | None) -> None:
    """Write a trained model into a new or empty folder.

    Args:
        trained: the model.
        folder: made where absent.
        scores: those of its test set, if known.

    Raises:
        UserError: there is something in the folder already, or it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UserError(f"{folder} is not empty; give a new folder, or empty that one")
        config = {k: v for k, v in trained.config.items() if not k.startswith(_NOT_THE_MODEL)}
        described = {"version": __version__, "config": config, "manifest": trained.manifest}
        tensors = {name: value.contiguous().clone() for name, value in trained.weights.items()}
        (folder / WEIGHTS).write_bytes(save(tensors, metadata={"format": "pt"}))
        trained.subwords.save(folder / SUBWORDS)
        _write_json(folder / CONFIG, described)
        if scores is not None:
            _write_json(folder / SCORES, scores)
        (folder / CARD).write_text(card(trained, scores), encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror or error})") from None


def read(folder: Path) -> Trained:
    """Read such a folder.

    Raises:
        UserError: a file is absent or damaged.
    """
    try:
        described = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        config, manifest = dict(described["config"]), dict(described["manifest"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder / CONFIG} describes no model ({error})") from None
    subwords = Subwords.load(folder / SUBWORDS)
    try:
        return Trained(folder, config, manifest, subwords, load_file(folder / WEIGHTS))
    except (OSError, SafetensorError) as error:
        raise UserError(f"{folder / WEIGHTS} holds no readable weights ({error})") from None


def card(trained: Trained, scores: Mapping[str, Any] | None) -> str:
    """What a person wants to know before loading it, as Markdown."""
    config, manifest = trained.config, trained.manifest
    pair = f"{manifest['source_language']}-{manifest['target_language']}"
    weighed = {key: config[key] for key in ("lambda", "lambda_var") if config.get(key)}
    facts = {
        "task": f"simultaneous translation, {pair}",
        "mechanism": _listed({**config["mechanism"], **weighed}),
        "model": _listed(config["model"]),
        "parameters": f"{sum(value.numel() for value in trained.weights.values()):,}",
        "subwords": f"{len(trained.subwords):,} ({SUBWORDS})",
        "data": f"{manifest['name']}, {manifest['splits']['train']['pairs']:,} training pairs",
        "made with": f"simulmt {__version__}",
    }
    lines = [f"# {config['mechanism']['name']} on {config['model']['name']}, {pair}", ""]
    lines += [f"- **{name}**: {value}" for name, value in facts.items()]
    if scores:
        lines += ["", "## On its test set", "", *_table(scores)]
    lines += [
        "", "## Use", "", "```bash", "python translate.py checkpoint=THIS_FOLDER", "```", "",
        "```python", "from simulmt.live.translator import Translator", "",
        'translator = Translator.load("THIS_FOLDER")',
        'translator.read("word")  # the words of the translation that this decides',
        "translator.finish()      # the rest", "```",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _listed(options: Mapping[str, Any]) -> str:
    name = options["name"]
    return ", ".join([str(name), *(f"{k}={v}" for k, v in options.items() if k != "name")])


def _table(scores: Mapping[str, Any]) -> list[str]:
    """Quality and word latency, each with its signature."""
    quality, latency = scores["quality"], scores["latency"]["word"]
    rows = [(name, quality[name], quality[key]) for name, key in
            (("BLEU", "signature"), ("chrF", "chrF_signature"))]  # fmt: skip
    rows += [(name, latency[name], latency["signature"][name]) for name in ("AL", "DAL", "AP")]
    lines = [
        f"| {name} | {'–' if value is None else format(value, '.2f')} | `{signed}` |"
        for name, value, signed in ((n, v, s.replace("|", "\\|")) for n, v, s in rows)
    ]
    return ["| | | signature |", "|---|---:|---|", *lines]


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")
