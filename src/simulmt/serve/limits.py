"""What a server allows its clients."""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from annotated_types import Ge, Le

from simulmt.options import limited

Sessions: TypeAlias = Annotated[int, Ge(1), Le(10_000)]
Bytes: TypeAlias = Annotated[int, Ge(4096), Le(1_000_000)]
Words: TypeAlias = Annotated[int, Ge(1), Le(4000)]
Seconds: TypeAlias = Annotated[float, Ge(1), Le(86_400)]

UNSEEN = 256
"""The most events of a session that may be unconfirmed; its words wait until there are fewer."""
FAULTS = 20
"""The malformed messages after which a connection is closed."""
LONGEST_WORD = 100
"""The most characters of a word; a longer one is read in pieces, as it would hold up a round."""
PANES = 2
"""The most panes of a session."""
HTTP_SECONDS = 20.0
"""How long a connection may last that is not a session's."""
HELLO_SECONDS = 10.0
"""How long a session's connection may wait with its first message."""


@limited
@dataclass(frozen=True)
class Limits:
    """What a server allows its clients.

    Args:
        sessions: the most sessions at once; those without a connection make room for others.
        message_bytes: the most bytes of a message.
        words: the most words of a sentence; a longer one is ended there.
        waiting: the most words of a session that wait for the model.
        idle: seconds without a word after which a session ends.
    """

    sessions: Sessions
    message_bytes: Bytes
    words: Words
    waiting: Words
    idle: Seconds
