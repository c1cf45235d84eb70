"""One translated document: a stream of words without sentence boundaries, and their delays."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, FiniteFloat

from simulmt.decoding.writing import words_of


class Boundary(NamedTuple):
    """A sentence boundary that the translator wrote.

    Attributes:
        written: The words of the prediction before it.
        split: The source words before the place where it cuts the source.
        read: The source words read when it was written.
    """

    written: int
    split: int
    read: int


@dataclass(frozen=True)
class StreamInstance:
    """One translated document; its fields are those of a line of its log.

    Times are in source words of the whole stream, or in milliseconds in a log of speech.

    Attributes:
        source: The name of the document, as OmniSTEval has it. SimulEval's logs have a list, with
            the properties of a recording after its name.
        prediction: The translation as people write it.
        delays: For each word of the prediction, the source words read before it was written. The
            words are characters if there are as many of them as delays.
        elapsed: For each word, its delay plus the computing time of the document until it was
            written. Empty if the times were not measured.
        boundaries: In the order in which they were written.
        text: The source words; empty if unknown.
        by_step: True if `elapsed` holds the computing time of the last step alone.
        references: The reference of each sentence; empty if unknown.

    Raises:
        ValueError: the number of delays or times differs from the numbers of words and characters.
    """

    source: Annotated[str, BeforeValidator(lambda s: s[0] if isinstance(s, list) and s else s)]
    prediction: str
    delays: tuple[FiniteFloat, ...]
    elapsed: tuple[FiniteFloat, ...] = ()
    boundaries: tuple[Boundary, ...] = ()
    text: str = ""
    by_step: bool = False
    references: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        words, delays, times = len(self.words), len(self.delays), len(self.elapsed)
        if delays != words or times not in {0, words}:
            counts = [len(words_of(self.prediction, characters)) for characters in (False, True)]
            raise ValueError(
                "document {!r} has {} words (or {} characters without spaces), {} delays and {} "
                "times".format(self.source, *counts, delays, times)
            )

    @property
    def words(self) -> list[str]:
        """The words of the prediction, or its characters if each has a delay."""
        words = words_of(self.prediction, characters=False)
        return words if len(words) == len(self.delays) else words_of(self.prediction, True)
