"""A trained model as a folder in open formats, to be shared; the folder holds no code.

model.safetensors   the weights
config.json         the version, the configuration, the manifest of the training data
subwords.model      the SentencePiece model
scores.json         the scores on the test set, if known
README.md           a model card
"""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save

from simulmt import __version__
from simulmt.data.subwords import Subwords
from simulmt.errors import UserError
from simulmt.options import SAME_RUN, Config
from simulmt.run_directory import CONFIG, EVALUATED, read_json, write_json
from simulmt.saved.trained import Trained
from simulmt.scoring.scores import Scores

WEIGHTS, SUBWORDS, CARD = "model.safetensors", "subwords.model", "README.md"
_NOT_THE_MODEL = (*SAME_RUN, "trainer", "init_from", "teacher")
"""Prefixes of the options of training and machine, which an exported model leaves out."""


def is_exported(folder: Path) -> bool:
    """Return whether `write` made this folder."""
    return (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file()


def write(trained: Trained, folder: Path, scores: Scores | None) -> None:
    """Write a trained model into a new or empty folder.

    Args:
        trained: the model.
        folder: created if absent.
        scores: the scores on its test set, if known.

    Raises:
        UserError: the folder is not empty, or cannot be written.
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
        write_json(folder / CONFIG, described)
        if scores is not None:
            write_json(folder / EVALUATED, scores)
        (folder / CARD).write_text(card(trained, scores), encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror or error})") from None


def read(folder: Path) -> Trained:
    """Return the model of a folder that `write` made.

    Raises:
        UserError: a file is absent or damaged.
    """
    try:
        described = read_json(folder / CONFIG)
        config, manifest = dict(described["config"]), dict(described["manifest"])
    except (UserError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder / CONFIG} describes no model ({error})") from None
    subwords = Subwords.load(folder / SUBWORDS)
    try:
        return Trained(folder, config, manifest, subwords, load_file(folder / WEIGHTS))
    except (OSError, SafetensorError) as error:
        raise UserError(f"{folder / WEIGHTS} holds no readable weights ({error})") from None


def card(trained: Trained, scores: Scores | None) -> str:
    """Return the model card as Markdown."""
    config, manifest = trained.config, trained.manifest
    pair = f"{manifest['source_language']}-{manifest['target_language']}"
    weights = {key: config[key] for key in ("lambda", "lambda_var") if config.get(key)}
    facts = {
        "task": f"simultaneous translation, {pair}",
        "mechanism": _listed({**config["mechanism"], **weights}),
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
        'translator.read("word")  # the words of the translation that are now decided',
        "translator.finish()      # the rest", "```",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _listed(options: Config) -> str:
    rest = [f"{key}={value}" for key, value in options.items() if key != "name"]
    return ", ".join([str(options["name"]), *rest])


def _table(scores: Scores) -> list[str]:
    """Return quality and word latency, each with its signature."""
    figures = scores["paper", "word"]
    lines = []
    for name in ("BLEU", "chrF", "AL", "DAL", "AP"):
        signature = figures[name].signature.replace("|", "\\|")
        lines.append(f"| {name} | {figures[name].form()} | `{signature}` |")
    return ["| | | signature |", "|---|---:|---|", *lines]
