"""One translated document: a stream of words without sentence boundaries, and their delays."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypeAlias

from annotated_types import Ge, Le
from pydantic import BeforeValidator

Time: TypeAlias = Annotated[float, Ge(0), Le(1e12)]
Name: TypeAlias = Annotated[
    str, BeforeValidator(lambda v: v[0] if isinstance(v, list) and v else v)
]
"""SimulEval's logs list properties of a recording after its name."""


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
    """One translated document. Its fields are those of a line of its log.

    Times are in source words of the whole stream; in milliseconds in a log of speech.

    Attributes:
        source: The name of the document, as in OmniSTEval's logs.
        prediction: The translation.
        delays: For each word of the prediction, the source words read before it was written.
        elapsed: For each word, its delay plus the computing time of the document until it was
            written. Empty if the times were not measured.
        boundaries: In the order in which they were written.
        text: The source words; empty if unknown.

    Raises:
        ValueError: the number of delays or times differs from the number of words.
    """

    source: Name
    prediction: str
    delays: tuple[Time, ...]
    elapsed: tuple[Time, ...] = ()
    boundaries: tuple[Boundary, ...] = ()
    text: str = ""

    def __post_init__(self) -> None:
        words, counts = len(self.prediction.split()), (len(self.delays), len(self.elapsed))
        if counts[0] != words or counts[1] not in {0, words}:
            raise ValueError(
                f"document {self.source!r} has {words} words, but {counts[0]} delays and "
                f"{counts[1]} times"
            )
