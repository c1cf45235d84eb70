"""A trained model: its weights, configuration, subwords and manifest of the data."""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import shorten

import torch
from torch import Tensor, nn

from simulmt.data.corpus import Corpus, Split
from simulmt.data.manifest import Manifest, check_manifest, manifest
from simulmt.data.store import digest
from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.policies import name_of
from simulmt.decoding.policy import Demands, Policy
from simulmt.errors import UserError
from simulmt.files.plugins import MODULE
from simulmt.files.run_directory import run_of
from simulmt.models.eight_bit import Precision, round_weights
from simulmt.models.model import Model
from simulmt.models.projection import by_columns
from simulmt.ops.eight_bit import EightBit
from simulmt.options import Config, convert, pick
from simulmt.parts import check_loaded
from simulmt.parts.builders import build_corpus, build_mechanism, outline_model
from simulmt.parts.configuration import Setup
from simulmt.system.console import warn


@dataclass(frozen=True)
class Trained:
    """A trained model, read but not yet built.

    Args:
        path: the checkpoint or exported folder.
        config: the resolved configuration of its training, as plain values.
        setup: the part of the configuration that the model needs.
        manifest: the manifest of the training data.
        needs: the versions of the plugins that bring a part of it, by module.
        subwords: the subwords of both languages.
        weights: the parameters by name.
        precision: `int8` to build models whose weights are rounded.
    """

    path: Path
    config: Config
    setup: Setup
    manifest: Manifest
    needs: Mapping[str, str]
    subwords: Tokenizer
    weights: Mapping[str, Tensor]
    precision: Precision = "float32"

    @property
    def home(self) -> Path:
        """The run directory, the exported folder, or the folder of a single checkpoint."""
        return self.path if self.path.is_dir() else run_of(self.path) or self.path.parent

    @classmethod
    def read(
        cls, path: Path, entries: Config, subwords: Tokenizer, weights: Mapping[str, Tensor]
    ) -> "Trained":
        """Return the model that a file describes by its `config`, `manifest` and `needs`.

        Raises:
            UserError: one of these is missing or of another type.
        """
        try:
            config, needs = convert(entries["config"], dict), entries["needs"]
            described = convert(entries["manifest"], Manifest)
            if not all(re.fullmatch(MODULE, name) for name in convert(needs, dict[str, str])):
                raise ValueError(f"needs must name plugins, but are {needs}")
            subwords = subwords.written(described.writing)
            return cls(path, config, Setup.of(config), described, needs, subwords, weights)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{path} is corrupt, or from another version of simulmt ({error}); retrain or "
                "export it again"
            ) from None

    @cached_property
    def digest(self) -> str:
        """The SHA-256 in hex of the model, its subwords and its weights."""
        state = hashlib.sha256()
        for name, value in sorted(self.weights.items()):
            state.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            state.update(value.reshape(-1).contiguous().view(torch.uint8).numpy().data)
        parts = [self.setup.model, self.setup.mechanism]
        return digest([parts, self.subwords.digest, state.hexdigest()])

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
        """Return the model's own data; some splits are checked to be those of the training.

        Args:
            names: the names of the checked splits.
            root: the folder of the text files, if they have moved.
            cache: the folder that keeps text; None for that of the training, if it exists.

        Raises:
            UserError: no such split, its text is not that of the training, or a plugin is missing.
        """
        if not self.manifest.splits:
            raise UserError(
                f"{self.path} was imported without its data, so it has no split={names[0]}: give "
                "source=FILE, and to evaluate also target=FILE, or split=sacrebleu:NAME instead"
            )
        check_loaded(self.needs, self.path)
        corpus = build_corpus(self.setup.data, root, cache or text_cache(self.setup.cache))
        for name in names:
            pick(corpus.splits, name, "split")
        check_manifest(self.manifest, manifest(corpus, self.subwords, names), names)
        return corpus

    def build(self, dials: Mapping[str, float] = {}, policy: Policy | None = None) -> Model:
        """Return the model with its weights, on the CPU in evaluation mode.

        Nothing is allocated before the configuration and the weights are known to fit. A policy
        that is possible but does not suit the mechanism is used, with a warning.

        Args:
            dials: values of the mechanism's dials that differ from those of the training.
            policy: decides which words are committed; None for the model's own decision.

        Raises:
            UserError: a plugin is missing, an option is unknown, the weights are those of another
                model, the mechanism lacks a dial, the policy does not fit the model, or the
                processor has no 8-bit products.
        """
        check_loaded(self.needs, self.path)
        mechanism = build_mechanism(self.setup.mechanism)
        demands = policy.demands(mechanism) if policy else Demands()
        if policy and demands.overrules and dials:
            given = f"dial.{min(dials)}={dials[min(dials)]} with policy={name_of(policy)}"
            raise UserError(f"{given}, which decides instead of the mechanism: leave out the dial")
        mechanism = mechanism.turned({**demands.dials, **dials})
        model = outline_model(self.setup.model, mechanism, self.subwords.vocabulary)
        if misfit := demands.misfit(model.attending_layers):
            raise UserError(f"policy={name_of(policy)} does not suit {self.path}: {misfit}")
        if demands.unsuited:
            warn(demands.unsuited)
        if self.precision == "int8":
            fill(model, self.weights, self.path, assign=True)
            round_weights(model, self._rounded)
        else:
            fill(model, self._by_columns, self.path, assign=True)
        return model.eval()

    @cached_property
    def _rounded(self) -> dict[int, EightBit]:
        """The rounded weights; all models that are built share them."""
        return {}

    @cached_property
    def _by_columns(self) -> dict[str, Tensor]:
        """The weights as a CPU decodes fastest with them; all models that are built share them."""
        vocabulary = self.subwords.vocabulary
        model = outline_model(self.setup.model, build_mechanism(self.setup.mechanism), vocabulary)
        return by_columns(self.weights, model, vocabulary.size)


def text_cache(cache: Path | None) -> Path | None:
    """Return the folder in which a training run kept text; None if it is absent or read-only."""
    text = cache.expanduser() / "text" if cache else None
    return text.parent if text and text.is_dir() and os.access(text, os.W_OK) else None


def check_finite(path: Path, weights: Mapping[str, object]) -> None:
    """Check that weights are tensors of finite floats.

    Raises:
        UserError: names the first of them.
    """
    for name, value in weights.items():
        if not (isinstance(value, Tensor) and value.is_floating_point() and value.isfinite().all()):
            raise UserError(
                f"{path}: its parameter {name} has values that are not finite floats; use an "
                "earlier checkpoint, or retrain with a lower optim.lr"
            )


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
            f"{path}: its weights do not fit the model that its configuration describes "
            f"({differences})"
        ) from None
