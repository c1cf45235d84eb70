"""The data of a run: its corpus, its subwords, and its splits as subwords."""

from pathlib import Path

from typing_extensions import NotRequired

from simulmt.analysis import summary
from simulmt.data.corpus import SPLITS, Corpus
from simulmt.data.encoded import EncodedSplit
from simulmt.data.manifest import Manifest
from simulmt.data.subwords import Subwords
from simulmt.data.tokenizer import Tokenizer
from simulmt.errors import UserError
from simulmt.options import Config, asked_of, check, construct
from simulmt.parts.builders import Data
from simulmt.saved.checkpoint import load_subwords
from simulmt.system.console import busy, say


def build_data(data: Data, cache: Path) -> tuple[Corpus, Tokenizer, dict[str, EncodedSplit]]:
    """Return the corpus, its subwords (given, cached or trained) and encoded splits.

    Args:
        data: the options.
        cache: the folder of encoded text and trained subwords.
    """
    subwords = _given_subwords(data.subwords)
    corpus = data.read(cache=cache)
    # small splits first: their errors then show before the long work
    splits = {name: corpus.splits[name] for name in reversed(SPLITS)}
    if subwords is None:
        text = splits["train"]
        given = {"sentences": text.sample(), "digest": " ".join(text.sha256)}
        options = {name: value for name, value in data.subwords.items() if name != "model"}
        with busy("subwords"):
            subwords = construct(
                Subwords.train, options, "data.subwords", {**given, "cache": cache / "subwords"}
            )
    encoded = {n: EncodedSplit.encode(s, subwords, cache) for n, s in splits.items()}
    return corpus, subwords, encoded


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
        raise UserError(f"data.subwords.model={place}: absent; give a SentencePiece file or a run")
    return load_subwords(Path(place))


def say_data(corpus: Corpus, subwords: Tokenizer, described: Manifest) -> None:
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
