"""A corpus as documents: how sentences are joined, and how much of its writing the source keeps."""

from dataclasses import dataclass, replace
from typing import Annotated

from simulmt.data.corpus import Corpus, LazySplits, Split
from simulmt.data.docids import drawn_documents
from simulmt.data.recognised import as_recognised
from simulmt.errors import UserError
from simulmt.options import Chance, Few, InOrder


@dataclass(frozen=True)
class Documents:
    """Options of a `conf/data` group that change what a reader returns.

    Attributes:
        documents: True to group the sentences of each split into documents.
        join: The least and the most sentences of a document, drawn at random; None if the reader
            returns documents.
        unpunctuated: Share of the training documents whose source has no punctuation marks.
        lowercased: Share of the training documents whose source has no capitals.
    """

    documents: bool = False
    join: Annotated[tuple[Few, Few], InOrder] | None = None
    unpunctuated: Chance = 0
    lowercased: Chance = 0

    def of(self, corpus: Corpus) -> Corpus:
        """Return the corpus with these options.

        Without documents, each sentence counts as one. Development and test sets lose marks or
        capitals if all training documents do.

        Raises:
            UserError: at the first access to a split: it has no documents, and none are drawn.
        """
        return replace(corpus, splits=LazySplits(lambda name: self._changed(corpus, name)))

    def _changed(self, corpus: Corpus, name: str) -> Split:
        split, shares = corpus.splits[name], (self.unpunctuated, self.lowercased)
        if self.documents and self.join:
            split = replace(split, documents=drawn_documents(len(split), self.join))
        elif self.documents and not split.documents:
            raise UserError(
                f"{name} has no documents: set data.join=[10,30], or with data=text add STEM.docid"
            )
        # of development and test sets, all documents or none: a share of 1, rounded down, is 1
        return as_recognised(split, *(each if name == "train" else each // 1 for each in shares))
