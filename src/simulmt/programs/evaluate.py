"""`evaluate.py`: score a trained model on a split of its data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from simulmt.data.batches import EncodedSplit
from simulmt.data.corpus import Split
from simulmt.data.manifest import check_manifest, manifest
from simulmt.decoding.instance import Instance, write_instances
from simulmt.errors import UserError
from simulmt.live.stopwatch import translate_timed
from simulmt.live.translator import Translator
from simulmt.options import pick
from simulmt.parts import build_corpus, build_search, pick_device
from simulmt.programs.plain import plain
from simulmt.saved import checkpoint
from simulmt.scoring.score import score, write_scores
from simulmt.training import report
from simulmt.training.callbacks import Decoder


def evaluate(cfg: DictConfig) -> None:
    """Decode and score a split with a checkpoint, as `train` did at its end.

    Raises:
        UserError: anything a user can put right.
    """
    options = plain(cfg)
    split = options["split"]
    _check(options)
    trained = checkpoint.load(Path(str(options["checkpoint"])))
    path, config, subwords = trained.path, trained.config, trained.subwords
    if options["data_root"]:
        config["data"]["root"] = str(options["data_root"])
    model, mechanism = trained.build()
    then: dict[str, Any] = config["decoding"]
    asked = {name: options[name] for name in then if options.get(name) is not None}
    search = build_search(then | asked, mechanism, model.usual_beam)
    if search.beam == 1 and "length_penalty" in asked:
        raise UserError(
            f"length_penalty={asked['length_penalty']} with a beam of 1: greedy decoding compares "
            "no lengths; set beam above 1 (for a mechanism that reads the whole sentence first)"
        )
    corpus = build_corpus(config["data"])
    chosen = pick(corpus.splits, split, "split")
    check_manifest(trained.manifest, manifest(corpus, subwords, [split]), [split])

    device = pick_device(options["device"])
    if options["word_ms"] is None:
        tokens = options["batch_tokens"] or 2 * config["data"]["batch_tokens"]
        decoder = Decoder(chosen, EncodedSplit.encode(chosen, subwords), subwords, tokens, search)
        instances = decoder(model.to(device), device, watch=report.watch)
        scores = score(instances, chosen.needs) | {"decoding": search.described}
    else:
        instances, scores = _timed(Translator(model.to(device), subwords, device), chosen, options)
        asked["word_ms"] = options["word_ms"]

    home = path if path.is_dir() else path.parent
    home = home.parent if home.name == "checkpoints" else home
    searched = [f"{name}{value}" for name, value in asked.items()]
    folder = home / "evaluation" / "-".join([split, path.stem, *searched])
    folder.mkdir(parents=True, exist_ok=True)
    write_instances(folder / "instances.log", instances)
    write_scores(folder / "scores.json", scores)
    report.results(f"{mechanism.name} on {split}", scores, instances, path, folder)
    if "computing_ms" in scores:
        report.computing(scores)


def _check(options: Mapping[str, Any]) -> None:
    tokens = options["batch_tokens"]
    if tokens is not None and (type(tokens) is not int or tokens < 1):
        raise UserError(f"batch_tokens is {tokens!r}; it must be a whole number from 1, or null")
    if options["word_ms"] is not None and options["length_penalty"] is not None:
        raise UserError(
            f"word_ms={options['word_ms']} with length_penalty={options['length_penalty']}: word "
            "by word nothing is compared by its length; leave one out"
        )


def _timed(
    translator: Translator, chosen: Split, options: Mapping[str, Any]
) -> tuple[list[Instance], dict[str, Any]]:
    """Word by word, with a clock running."""
    word_ms = options["word_ms"]
    if isinstance(word_ms, bool) or not isinstance(word_ms, int | float) or not word_ms > 0:
        raise UserError(f"word_ms is {word_ms!r}; it is how long a source word lasts, above 0")
    if options["beam"] not in (None, 1):
        raise UserError(f"beam={options['beam']} with word_ms: a stream is greedy; leave one out")
    instances, computing = translate_timed(translator, chosen, word_ms, report.watch)
    scores = score(instances, chosen.needs)
    decoding = {"beam": 1, "live": True, "word_ms": word_ms}
    return instances, scores | {"computing_ms": computing, "decoding": decoding}
