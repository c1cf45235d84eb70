"""All sessions, and the rounds in which their words are read.

One thread has the models. In each round it reads one word of every session that has one, in one
batch: all sessions go on at the same pace, and a pasted book delays nobody else. The event loop
meanwhile goes on taking and sending messages.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from simulmt.errors import UserError
from simulmt.live.translator import Translator
from simulmt.serve.events import Event, Notice, Step, Welcome
from simulmt.serve.interpretation import Interpretation, Turn, advance
from simulmt.serve.journal import Journal
from simulmt.serve.limits import LONGEST_WORD, PANES, Limits
from simulmt.serve.messages import Hello, Setting
from simulmt.serve.models import Served
from simulmt.serve.session import Item, Session

_SWEEP = 1.0
"""Seconds between two looks for idle sessions."""


class FullError(Exception):
    """No further session fits."""


class Played(NamedTuple):
    """What an item of a session has led to."""

    session: Session
    events: list[Event]
    text: str = ""
    """The sentence that has ended, and its translations."""


class Sessions:
    """Begins, resumes and ends sessions, and has their words read.

    Args:
        models: what panes may show.
        panes: what the panes of a new session show.
        limits: of sessions, words and time.
        journal: the log.
    """

    def __init__(
        self,
        models: Sequence[Served],
        panes: Sequence[Setting],
        limits: Limits,
        journal: Journal,
    ) -> None:
        self.models, self.panes, self.limits, self.journal = models, panes, limits, journal
        self._by_token = dict[str, Session]()
        self._begun = 0
        self._beginning, self._work = asyncio.Lock(), asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "models")

    def __len__(self) -> int:
        return len(self._by_token)

    async def begin(self, connection: object, hello: Hello) -> tuple[Session, Welcome]:
        """Return the session of a client, and its greeting.

        A token that is unknown, or whose session has ended, gets a new session.

        Raises:
            MalformedError: the client cannot have seen the events that it names.
            FullError: there is no room, and no session without a connection to make room.
        """
        session = self._by_token.get(hello.token or "")
        resumed = session is not None
        if session is None:
            async with self._beginning:
                session = await self._new()
        session.connect(connection, hello.seen if resumed else 0)
        self.journal.write("resumed" if resumed else "began", session=session.number)
        offers, limits = tuple(model.offer for model in self.models), self.limits
        welcome = Welcome(
            session.token,
            resumed,
            session.heard,
            offers,
            tuple(self.panes),
            PANES,
            limits.words,
            limits.waiting,
            limits.message_bytes,
            LONGEST_WORD,
        )
        return session, welcome

    async def run(self) -> None:
        """Read words and end idle sessions, for ever."""
        sweeping = asyncio.create_task(self._sweep())
        try:
            while True:
                await self._work.wait()
                self._work.clear()
                while items := self._next():
                    try:
                        for played in await self._in_thread(items):
                            self._tell(played)
                    except Exception as error:  # a fault of ours costs a round, not the server
                        self.journal.write("error", what=repr(error)[:300])
        finally:
            sweeping.cancel()

    def close(self) -> None:
        """End all sessions; a round that is under way is the last."""
        for session in [*self._by_token.values()]:
            self._end(session, "the server has ended")
        self._thread.shutdown(wait=False, cancel_futures=True)

    def translator(self, setting: Setting) -> Translator:
        """Return the translator of a setting; in the thread that has the models.

        Raises:
            UserError: no such model, or as for `Served.translator`.
        """
        if setting.model >= len(self.models):
            raise UserError(f"model={setting.model}: there are {len(self.models)}, from 0")
        return self.models[setting.model].translator(setting)

    async def _new(self) -> Session:
        if len(self) >= self.limits.sessions:
            gone = [one for one in self._by_token.values() if one.connection is None]
            if not gone:
                raise FullError(f"all {self.limits.sessions} sessions are taken; try again later")
            self._end(min(gone, key=lambda one: one.touched), "its place was needed")
        self._begun += 1
        interpretation = await asyncio.get_running_loop().run_in_executor(
            self._thread, Interpretation.of, self.panes, self.translator, self.limits.words
        )
        session = Session(self._begun, interpretation, self.limits, self._work.set)
        self._by_token[session.token] = session
        return session

    def _next(self) -> list[tuple[Session, Item]]:
        ready = [session for session in self._by_token.values() if session.ready]
        return [(session, session.waiting.popleft()) for session in ready]

    async def _in_thread(self, items: Sequence[tuple[Session, Item]]) -> list[Played]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, play, items)

    def _tell(self, played: Played) -> None:
        for event in played.events:
            played.session.tell(event)
            if isinstance(event, Step) and event.ended:
                self.journal.write(
                    "sentence",
                    played.text,
                    session=played.session.number,
                    number=event.sentence,
                    read=event.read,
                    ended=event.ended,
                )

    def _end(self, session: Session, why: str) -> None:
        self._by_token.pop(session.token, None)
        session.end(why)
        self.journal.write("ended", session=session.number, why=why)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP)
            latest = time.monotonic() - self.limits.idle
            for session in [*self._by_token.values()]:
                if session.touched < latest:
                    self._end(session, f"no word for {self.limits.idle:g} seconds")


def play(items: Sequence[tuple[Session, Item]]) -> list[Played]:
    """Return what follows from an item of each session; in the thread that has the models."""
    played = {session: Played(session, []) for session, _ in items}
    turns = dict[Session, Turn]()
    for session, item in items:
        if not isinstance(item, Turn):
            played[session].events.extend(_choose(session.interpretation, item))
        elif item.of.read or not item.ended:  # an empty sentence has no end
            turns[session] = item
    _advance(turns, played)
    full = {session: turn.of for session, turn in turns.items() if turn.of.full}
    _advance({session: Turn(of, ended="long") for session, of in full.items()}, played)
    return [*played.values()]


def _choose(interpretation: Interpretation, panes: Sequence[Setting]) -> Iterator[Event]:
    """Yield what a choice of panes leads to."""
    try:
        change = interpretation.choose(panes)
    except UserError as error:
        yield Notice(str(error))
    else:
        yield from [change] if change else []


def _advance(turns: Mapping[Session, Turn], played: dict[Session, Played]) -> None:
    """Have all turns read, and begin another sentence where one has ended."""
    steps = advance([*turns.values()])
    for (session, turn), step in zip(turns.items(), steps, strict=True):
        events = played[session].events
        events.append(step)
        if step.ended:
            played[session] = Played(session, events, turn.of.text)
            turn.of.begin()
            change = turn.of.change()
            events += [change] if change else []
