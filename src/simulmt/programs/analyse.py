"""`analyse.py`: a study of finished runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from omegaconf import DictConfig

from simulmt.analysis.looked import Looked, attention_links
from simulmt.analysis.report import comparable
from simulmt.analysis.runs import find_runs
from simulmt.analysis.studies import STUDIES
from simulmt.analysis.studies.material import Decoded, Material, write_result
from simulmt.analysis.target import check_writable
from simulmt.attention import Mechanism
from simulmt.attention.attention import Attention
from simulmt.data.batches import Batch, EncodedSplit, OrderedBatches, collate_pairs
from simulmt.data.corpus import Corpus, Split
from simulmt.data.manifest import check_manifest, manifest
from simulmt.data.subwords import Subwords
from simulmt.decoding.corpus import decode_split
from simulmt.models.model import Model
from simulmt.options import construct, pick
from simulmt.parts import build_corpus, build_search, pick_device
from simulmt.programs.plain import plain
from simulmt.run_directory import CONFIG, read_json
from simulmt.saved import checkpoint


def analyse(cfg: DictConfig) -> None:
    """Make a study, and say where its figure and its table are.

    Raises:
        UserError: anything a user can put right.
    """
    options = plain(cfg)
    name, folder, to = options.pop("study"), Path(str(options.pop("runs"))), options.pop("to")
    study = pick(STUDIES, name, "study")
    device, root = options.pop("device"), options.pop("data_root")
    pick_device(device)
    found = find_runs(folder, decodings=False)
    target = Path(str(to)) if to else folder / "analysis"
    check_writable(target)
    material = Material(
        folder,
        comparable(found, folder),
        partial(_read, root),
        partial(_decode, root, device),
        partial(_attend, root, device),
    )
    for note in found.damaged:
        print(f"left out: {note}")
    if found.unfinished:
        print(f"not finished, and left out: {found.unfinished} more")
    asked = {key: value for key, value in options.items() if value is not None}
    result = construct(study, asked, f"study={name}", {"material": material})
    files = write_result(result, target, name)
    print(f"written: {', '.join(map(str, files))}")


def _read(root: object, place: Path) -> Corpus:
    """The data of a run, as its configuration describes them."""
    return build_corpus(read_json(place / CONFIG)["data"] | _moved(root))


def _decode(root: object, device: str, place: Path) -> Decoded:
    """The test set, decoded as `train.py` did."""
    config, subwords, model, mechanism, split, batches, chosen = _test_set(root, device, place)
    search = build_search(config["decoding"], mechanism, model.usual_beam)
    decoded = decode_split(model, subwords, split, batches, chosen, search)
    heads = [part.heads for part in model.modules() if isinstance(part, Attention)]
    return Decoded(sorted(decoded, key=lambda instance: instance.index), heads)


def _attend(root: object, device: str, place: Path) -> Looked:
    """Where the model looks while it writes the references of the test set."""
    made = _test_set(root, device, place)
    return attention_links(made.model, made.subwords, made.batches, made.device)


class _TestSet(NamedTuple):
    config: Mapping[str, Any]
    subwords: Subwords
    model: Model
    mechanism: Mechanism
    split: Split
    batches: Iterable[Batch]
    device: torch.device


def _test_set(root: object, device: str, place: Path) -> _TestSet:
    """The model of a run, and the test set that it was trained for."""
    trained = checkpoint.load(place)
    config, subwords = trained.config, trained.subwords
    model, mechanism = trained.build()
    corpus = build_corpus(config["data"] | _moved(root))
    check_manifest(trained.manifest, manifest(corpus, subwords, ["test"]), ["test"])
    split, chosen = corpus.splits["test"], pick_device(device)
    encoded = EncodedSplit.encode(split, subwords)
    rows = OrderedBatches(encoded.lengths, 2 * config["data"]["batch_tokens"])
    batches = (collate_pairs([encoded[i] for i in batch]) for batch in rows)
    return _TestSet(config, subwords, model.to(chosen), mechanism, split, batches, chosen)


def _moved(root: object) -> dict[str, str]:
    return {"root": str(root)} if root else {}
