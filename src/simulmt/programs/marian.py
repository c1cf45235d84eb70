"""`simulmt import`: a model in Marian's format as a folder like those that `export` writes."""

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from simulmt.errors import UserError
from simulmt.options import construct
from simulmt.programs.plain import plain
from simulmt.saved import exported
from simulmt.saved.marian import folder as marian


@dataclass(frozen=True)
class ImportOptions:
    """The options of `conf/import.yaml`, which explains each of them; `from` is a keyword."""

    folder: Path
    to: Path
    target: str | None
    plugins: list[str]


def import_model(cfg: DictConfig) -> None:
    """Import a model, and print what is known of it.

    Raises:
        UserError: no such model, one that has no equal here, or a folder that is in use.
    """
    given = plain(cfg)
    options = construct(ImportOptions, {"folder": given.pop("from"), **given}, "")
    if not options.folder.is_dir():
        raise UserError(f"from={options.folder}: there is no such folder")
    trained = marian.read(options.folder, options.target)
    trained.build()  # raises if the model could not be loaded from the folder
    exported.write(trained, options.to, {})
    described, model = trained.manifest, trained.setup.model
    print(
        f"{described.name} {described.pair}: {model['encoder_layers']} + {model['decoder_layers']} "
        f"layers of width {model['dim']}, {len(trained.subwords):,} subwords\n"
        f"licence: {described.licence or 'not in its card; ask its authors'}\n"
        "its training data are unknown, so no program can warn of a test set that it was trained "
        f"on: read its card\n{options.folder} imported to {options.to}"
    )
