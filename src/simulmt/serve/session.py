"""A session: what waits to be read, and what its client has not seen. It outlives connections.

Everything here runs in the event loop and is quick; `sessions` has the models read the words.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from simulmt.data.text import normalise
from simulmt.live.interpreter import cut
from simulmt.serve.events import Event, event_text
from simulmt.serve.interpretation import Interpretation, Turn
from simulmt.serve.limits import LONGEST_WORD, PANES, UNSEEN, Limits
from simulmt.serve.messages import End, MalformedError, Message, Panes, Seen, Setting, Words

Item: TypeAlias = Turn | tuple[Setting, ...]
"""What waits in a session: something to read, or a choice of panes."""


class Session:
    """One user's sentences, with or without a connection.

    Events are kept until the client confirms them. While too many are not confirmed, for whatever
    reason, the session reads no further: a slow client takes a bounded queue and delays nobody.

    Args:
        number: for the journal.
        interpretation: of the sentences.
        limits: of words.
        wake: called when there may be something to read.
    """

    def __init__(
        self,
        number: int,
        interpretation: Interpretation,
        limits: Limits,
        wake: Callable[[], None],
    ) -> None:
        self.number, self.interpretation = number, interpretation
        self.token = secrets.token_urlsafe(24)
        self.waiting = deque[Item]()
        self.touched = time.monotonic()
        self.heard = 0
        """The number of messages heard, malformed ones included; `hello` and `seen` not."""
        self.over = ""
        """Why the session has ended, if it has."""
        self.connection: object = None
        """The connection that gets the events; None after it has gone."""
        self._limits, self._wake = limits, wake
        self._kept, self._confirmed = deque[str](), 0
        self._news = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether something can be read, and its events be kept."""
        return bool(self.waiting) and len(self._kept) < UNSEEN and not self.over

    @property
    def last(self) -> int:
        """The number of the last event."""
        return self._confirmed + len(self._kept)

    def hear(self, message: Message) -> None:
        """Take a message.

        Raises:
            MalformedError: the message asks for more than the limits allow.
        """
        if isinstance(message, Seen):
            self._confirm(message.number)
            return
        self.touched = time.monotonic()
        if isinstance(message, Words):
            self._take(message.text)
        elif isinstance(message, End):
            self._queue(Turn(self.interpretation, ended="end"))
        elif isinstance(message, Panes):
            if not 1 <= len(message.panes) <= PANES:
                raise MalformedError(f"there are {len(message.panes)} panes; give 1 to {PANES}")
            self._queue(tuple(message.panes))
        else:
            raise MalformedError("the session has begun; hello comes first, and once")

    def tell(self, event: Event) -> None:
        """Add an event."""
        self.touched = time.monotonic()
        self._kept.append(event_text(event, self.last + 1, self.heard))
        self._news.set()

    def connect(self, connection: object, seen: int) -> None:
        """Give the events to a connection, whose client has seen those up to a number.

        Raises:
            MalformedError: the client cannot have seen that number, or has confirmed a larger one.
        """
        self._confirm(seen)
        self.connection, self.touched = connection, time.monotonic()
        self._news.set()

    def disconnect(self, connection: object) -> None:
        """Let a connection go, unless another has taken its place."""
        if self.connection is connection:
            self.connection = None

    def end(self, why: str) -> None:
        """End the session."""
        self.over = why
        self._news.set()

    async def events(self, connection: object) -> AsyncIterator[str]:
        """Yield every event that is not confirmed, until another connects or the session ends."""
        sent = self._confirmed
        while self.connection is connection and not self.over:
            sent = max(sent, self._confirmed)
            if sent < self.last:
                sent += 1
                yield self._kept[sent - 1 - self._confirmed]
            else:
                self._news.clear()
                await self._news.wait()

    def _confirm(self, number: int) -> None:
        if not self._confirmed <= number <= self.last:
            raise MalformedError(f"seen: {number} is not from {self._confirmed} to {self.last}")
        while self._confirmed < number:
            self._kept.popleft()
            self._confirmed += 1
        self._wake()

    def _take(self, text: str) -> None:
        words = [part for word in normalise(text).split() for part in cut(word, LONGEST_WORD)]
        waiting, most = len(self.waiting), self._limits.waiting
        if waiting + len(words) > most:
            raise MalformedError(f"{len(words)} words, and {waiting} wait; {most} may: send fewer")
        self.waiting += [Turn(self.interpretation, word) for word in words]
        self._wake()

    def _queue(self, item: Item) -> None:
        if len(self.waiting) >= 2 * self._limits.waiting:  # words leave room for their ends
            raise MalformedError(f"{len(self.waiting)} messages wait; send fewer")
        self.waiting.append(item)
        self._wake()
