"""A trained model: its weights, configuration, subwords and manifest of the data."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

from torch import Tensor, nn

from simulmt.builders import build_corpus, build_mechanism, outline_model
from simulmt.data.corpus import Corpus, Split
from simulmt.data.manifest import check_manifest, manifest
from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.policy import Policy
from simulmt.errors import UserError
from simulmt.models.model import Model
from simulmt.options import Config, pick
from simulmt.parts import check_loaded
from simulmt.plugins import MODULE

UNTURNED: Mapping[str, float] = {}
_NEEDED: Mapping[str, type] = {
    **dict.fromkeys(("mechanism", "model", "data", "decoding"), dict),
    **{"model.name": str, "data.corpus": str, "data.batch_tokens": int},
}
"""The types of the groups and options that the programs read; the parts check the others."""
_DESCRIBED: Mapping[str, type] = {
    **dict.fromkeys(("name", "source_language", "target_language"), str),
    "splits": dict,
}
"""The types of the entries of the manifest that the programs read."""
_OF_SPLITS: Mapping[str, type] = {"splits.train": dict, "splits.train.pairs": int}
"""The same of the manifest of a model that was trained here, and not imported."""


@dataclass(frozen=True)
class Trained:
    """A trained model, read but not yet built.

    Args:
        path: the checkpoint or exported folder.
        config: the resolved configuration of its training, as plain values.
        manifest: the manifest of the training data.
        needs: the versions of the plugins that bring a part of it, by module.
        subwords: the subwords of both languages.
        weights: the parameters by name.

    Raises:
        UserError: the configuration or the manifest lacks an entry, or a plugin has no name.
    """

    path: Path
    config: Config
    manifest: Config
    needs: Mapping[str, str]
    subwords: Tokenizer
    weights: dict[str, Tensor]

    def __post_init__(self) -> None:
        self._check("configuration", self.config, _NEEDED)
        self._check("manifest", self.manifest, _DESCRIBED)
        if self.manifest["splits"]:
            self._check("manifest", self.manifest, _OF_SPLITS)
        for module, version in self.needs.items():  # shown, to be typed again
            if not re.fullmatch(MODULE, module) or not re.fullmatch(r"[\w.+!-]*", str(version)):
                raise UserError(
                    f"{self.path} is damaged: it needs {module!r} of version {version!r}, which is "
                    "no plugin; train or export it anew"
                )

    def _check(self, what: str, content: Config, needed: Mapping[str, type]) -> None:
        for place, kind in needed.items():
            value: Any = content
            for name in place.split("."):
                value = value.get(name)
            if not isinstance(value, kind):
                raise UserError(
                    f"{self.path} is damaged: its {what} lacks {place}, of type "
                    f"{kind.__name__}; train or export it anew"
                )

    def own_split(self, name: str, root: Path | None) -> Split:
        """Return a split of the model's own data.

        Args:
            name: `train`, `valid` or `test`.
            root: the folder of the text files, if they have moved.

        Raises:
            UserError: as for `own_corpus`.
        """
        return self.own_corpus([name], root).splits[name]

    def own_corpus(
        self, names: Sequence[str], root: Path | None, cache: Path | None = None
    ) -> Corpus:
        """Return the model's own data, with some splits known to be those of the training.

        Args:
            names: the names of these splits.
            root: the folder of the text files, if they have moved.
            cache: the folder that keeps text; None for that of the training, if it is here.

        Raises:
            UserError: no such split, its text is not that of the training, or a plugin is missing.
        """
        if not self.manifest["splits"]:
            raise UserError(
                f"split={names[0]} of {self.path}, a model that was imported and has no data of "
                "its own: give source=FILE target=FILE, or split=sacrebleu:NAME"
            )
        check_loaded(self.needs, self.path)
        corpus = build_corpus(self.config["data"], root, cache or text_cache(self.config))
        for name in names:
            pick(corpus.splits, name, "split")
        check_manifest(self.manifest, manifest(corpus, self.subwords, names), names)
        return corpus

    def build(self, dials: Mapping[str, float] = UNTURNED, policy: Policy | None = None) -> Model:
        """Return the model with its weights, on the CPU in evaluation mode.

        Nothing is allocated before the configuration and the weights are known to fit.

        Args:
            dials: values of the mechanism's dials that differ from those of the training.
            policy: what will commit words; None for the model's own decision.

        Raises:
            UserError: a plugin is missing, an option that this package does not define, weights of
                another model, a dial that the mechanism does not have, or a policy that makes no
                sense for the model.
        """
        check_loaded(self.needs, self.path)
        mechanism = build_mechanism(self.config["mechanism"])
        mechanism = mechanism.turned({**(policy.model_dials(mechanism) if policy else {}), **dials})
        model = outline_model(self.config["model"], mechanism, self.subwords.vocabulary)
        if policy and (misfit := policy.misfit(mechanism, model.attending_layers)):
            raise UserError(f"{type(policy).__name__} is no policy for {self.path}: {misfit}")
        fill(model, self.weights, self.path, assign=True)
        return model.eval()


def text_cache(config: Config) -> Path | None:
    """Return the folder in which a training kept its text; None if it is not here or not ours."""
    cache = Path(str(config.get("cache", ""))).expanduser()
    return cache if (cache / "text").is_dir() and os.access(cache / "text", os.W_OK) else None


def fill(model: nn.Module, weights: Mapping[str, Tensor], path: Path, **how: bool) -> None:
    """Load all parameters of a model; `how` goes to `load_state_dict`.

    Raises:
        UserError: they are those of another model; the message lists some of the differences.
    """
    try:
        model.load_state_dict(weights, **how)
    except RuntimeError as error:
        differences = shorten(str(error).partition("\n")[2], 300)
        raise UserError(
            f"{path}: its weights are not those of the model that its configuration describes "
            f"({differences})"
        ) from None
