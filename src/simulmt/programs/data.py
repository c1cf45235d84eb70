"""The data of a run: its corpus, its subwords, and its splits as subwords."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from simulmt.analysis import summary
from simulmt.data.corpus import SPLITS, Corpus
from simulmt.data.encoded import EncodedSplit
from simulmt.data.manifest import Manifest, manifest
from simulmt.data.subwords import Subwords
from simulmt.data.tokenizer import Tokenizer
from simulmt.data.windows import Windows
from simulmt.decoding.search import Search
from simulmt.errors import UserError
from simulmt.parts.builders import Data
from simulmt.saved.checkpoint import load_subwords
from simulmt.scoring.guards import unspaced_sides
from simulmt.scoring.split_decoder import SplitDecoder
from simulmt.system.console import console, say


@dataclass(frozen=True)
class RunData:
    """A corpus, its subwords, and its splits as subwords."""

    corpus: Corpus
    subwords: Tokenizer
    encoded: Mapping[str, EncodedSplit]
    train: EncodedSplit | Windows
    """The training pairs: whole sentences, or windows of documents."""

    @classmethod
    def read(cls, data: Data, cache: Path) -> "RunData":
        """Return the data of a run, with subwords that are given, cached or trained here.

        Args:
            data: the options.
            cache: the folder of encoded text and trained subwords.
        """
        wanted = data.subwords
        subwords: Tokenizer | None = load_subwords(wanted.model) if wanted.model else None
        corpus = data.read(cache=cache)
        # small splits first: their errors then show before the long work
        splits = {name: corpus.splits[name] for name in reversed(SPLITS)}
        if subwords is None:
            text = splits["train"]
            with console.status("subwords"):
                subwords = Subwords.train(
                    text.sample(),
                    wanted.size,
                    wanted.kind,
                    character_coverage=wanted.character_coverage,
                    cache=cache / "subwords",
                    digest=" ".join(text.sha256),
                )
        subwords = subwords.written(data.writing)
        encoded = {n: EncodedSplit.encode(s, subwords, cache) for n, s in splits.items()}
        train, documents = encoded["train"], splits["train"].documents
        if documents and subwords.vocabulary.opening:
            raise UserError(
                "data.documents=true with the subwords of a multilingual model, which opens each "
                "sentence with a tag of its target language: set data.documents=false"
            )
        windows = Windows(train, documents.values(), data.windows) if documents else train
        return cls(corpus, subwords, encoded, windows)

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the data, kept with the model."""
        return manifest(self.corpus, self.subwords)

    def decoder(self, name: str, tokens: int, search: Search) -> SplitDecoder:
        """Return what decodes a split in batches of at most `tokens` tokens."""
        split, encoded = self.corpus.splits[name], self.encoded[name]
        return SplitDecoder(split, self.subwords, tokens, search, encoded=encoded)

    def describe(self) -> None:
        """Print sizes, dropped pairs, and warnings about text that repeats or has no spaces."""
        corpus = self.corpus
        sizes = ", ".join(f"{len(split):,} {name}" for name, split in corpus.splits.items())
        say(f"{corpus.name} {self.manifest.pair}: {sizes} pairs, {len(self.subwords):,} subwords")
        for name, split in corpus.splits.items():
            summary.print_dropped(name, split)
        for name in ("valid", "test"):
            summary.repeated(name, corpus.splits[name], self.manifest)
        valid = corpus.splits["valid"]
        for warning in unspaced_sides({"source": valid.sources, "target": valid.targets}):
            say(f"warning: {warning}")
