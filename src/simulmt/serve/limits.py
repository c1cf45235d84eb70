"""What a server allows its clients."""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from annotated_types import Ge, Le

Words: TypeAlias = Annotated[int, Ge(1), Le(4000)]

UNSENT = 64
"""The events, beyond two for each word that may wait, after which a slow reader is closed."""
FAULTS = 20
"""The malformed messages after which a connection is closed."""
LONGEST_WORD = 100
"""The most characters of a word; a longer one is read in pieces, as it would hold up a round."""
PANES = 2
"""The most panes of a session."""
CLOSING_SECONDS = 5.0
"""How long a client may take to read why its session is closed."""


@dataclass(frozen=True)
class Limits:
    """What a server allows its clients.

    Args:
        sessions: the most sessions at once.
        message_bytes: the most bytes of a message.
        words: the most words of a sentence; a longer one is ended there.
        waiting: the most words of a session that wait for the model.
        idle: seconds without a message after which a session ends.
    """

    sessions: Annotated[int, Ge(1), Le(10_000)]
    message_bytes: Annotated[int, Ge(4096), Le(1_000_000)]
    words: Words
    waiting: Words
    idle: Annotated[float, Ge(1), Le(86_400)]
