"""The data of a run: its corpus, its subwords, and its splits as subwords."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import NotRequired

from simulmt.analysis import summary
from simulmt.builders import build_corpus
from simulmt.console import busy, say
from simulmt.data.corpus import SPLITS, Corpus, Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.subwords import Subwords
from simulmt.data.tokenizer import Tokenizer
from simulmt.errors import UserError
from simulmt.options import Config, asked_of, check, construct
from simulmt.saved.checkpoint import load_subwords


def build_data(config: Config) -> tuple[Corpus, Tokenizer, dict[str, EncodedSplit]]:
    """Return the corpus, its subwords (given, cached or trained) and encoded splits."""
    options = dict(config["data"]["subwords"])
    subwords = _given_subwords(options)
    cache = Path(config["cache"]).expanduser()
    corpus = build_corpus(config["data"], cache=cache)
    # small splits first: their errors then show before the long work
    splits = {name: corpus.splits[name] for name in reversed(SPLITS)}
    if subwords is None:
        with busy("subwords"):
            options.pop("model", None)
            subwords = construct(
                Subwords.train, options, "data.subwords", _text(splits["train"], cache)
            )
    encoded = {n: EncodedSplit.encode(s, subwords, cache) for n, s in splits.items()}
    return corpus, subwords, encoded


def _text(split: Split, cache: Path) -> dict[str, Any]:
    """Return what `Subwords.train` is given of a split; cached subwords need none of its lines."""
    sentences, digest = split.sample(), " ".join(split.sha256)
    return {"sentences": sentences, "digest": digest, "cache": cache / "subwords"}


def _given_subwords(options: Config) -> Tokenizer | None:
    """Return the subwords that `data.subwords.model` names; None if it is null.

    Raises:
        UserError: an option is unknown or of the wrong type, or there is no usable model.
    """
    asked = asked_of(Subwords.train, ("sentences", "digest", "cache")) | {"model": str | None}
    check(options, {name: NotRequired[kind] for name, kind in asked.items()}, "data.subwords")
    place = options.get("model")
    if place is None:
        return None
    if not Path(place).exists():
        raise UserError(
            f"data.subwords.model={place}: there is no such file or folder; give a SentencePiece "
            ".model file, a run or a checkpoint, or null to train the subwords on the text"
        )
    return load_subwords(Path(place))


def say_data(corpus: Corpus, subwords: Tokenizer, described: Mapping[str, object]) -> None:
    """Print the sizes of the data, the dropped pairs, and the splits that repeat the training."""
    sizes = ", ".join(f"{len(split):,} {name}" for name, split in corpus.splits.items())
    say(
        f"{corpus.name} {corpus.source_language}-{corpus.target_language}: {sizes} pairs, "
        f"{len(subwords):,} subwords"
    )
    for name, split in corpus.splits.items():
        summary.dropped(name, split)
    for name in ("valid", "test"):
        summary.repeated(name, corpus.splits[name], described)
