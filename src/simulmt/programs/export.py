"""`export.py` and `simulmt import`: a trained model as a folder that can be given away."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from omegaconf import DictConfig

from simulmt.files import run_directory as files
from simulmt.options import construct
from simulmt.programs.plain import plain
from simulmt.saved import checkpoint, exported
from simulmt.saved.marian import export as marian
from simulmt.saved.marian import folder as marian_folder
from simulmt.scoring.scores import Scores
from simulmt.system.disk import read_record


@dataclass(frozen=True)
class ExportOptions:
    """The options of `conf/export.yaml`, which explains each of them."""

    checkpoint: Path
    to: Path
    format: Literal["simulmt", "marian"]


def export(cfg: DictConfig) -> None:
    """Export a trained model, and print the folder.

    Raises:
        UserError: no such checkpoint, a folder that is in use, or a model that the format
            cannot hold.
    """
    options = construct(ExportOptions, plain(cfg), "")
    trained = checkpoint.load(options.checkpoint)
    trained.build()  # raises if the model could not be loaded from the folder
    if options.format == "marian":
        marian.write(trained, options.to)
        print(f"{trained.path} exported to {options.to}, for transformers")
        return
    scores = _test_scores(trained.path, trained.home)
    provenance = files.read_provenance(trained.home)
    records = {files.EVALUATED: scores, files.PROVENANCE: provenance}
    known = {name: record for name, record in records.items() if record is not None}
    table = list[str]()
    if scores:
        table = ["| | | signature |", "|---|---:|---|"]
        for name in ("BLEU", "chrF", "AL", "DAL", "AP"):
            figure = scores["paper", "word"][name]
            signature = figure.signature.replace("|", "\\|")
            table.append(f"| {name} | {figure.form()} | `{signature}` |")
    exported.write(trained, options.to, known, table)
    missing = "" if scores else " (its card has no test scores: there are none beside the model)"
    print(f"{trained.path} exported to {options.to}{missing}")


def _test_scores(path: Path, home: Path) -> Scores | None:
    """Return the test scores of a checkpoint or an exported folder; None if it has none."""
    file = home / (files.EVALUATED if path == home else files.SCORES)
    scored = path in (home, files.tested_checkpoint(home)) and file.is_file()
    return read_record(file, Scores) if scored else None


@dataclass(frozen=True)
class ImportOptions:
    """The options of `conf/import.yaml`, which explains each of them; `from` is a keyword."""

    folder: Path
    to: Path
    target: str | None


def import_model(cfg: DictConfig) -> None:
    """Import a model in Marian's format, and print what is known of it.

    Raises:
        UserError: no such model, one that simulmt cannot run, or a folder that is in use.
    """
    given = plain(cfg)
    options = construct(ImportOptions, {"folder": given.pop("from"), **given}, "")
    trained = marian_folder.read(options.folder, options.target)
    trained.build()  # raises if the model could not be loaded from the folder
    exported.write(trained, options.to, {})
    described, model = trained.manifest, trained.setup.model
    print(
        f"{described.name} {described.pair}: {model['encoder_layers']} + {model['decoder_layers']} "
        f"layers of width {model['dim']}, {len(trained.subwords):,} subwords\n"
        f"licence: {described.licence or 'not in its card; ask its authors'}\n"
        "its training data are unknown, so simulmt cannot warn if a test set is among them: read "
        f"its card\n{options.folder} imported to {options.to}"
    )
