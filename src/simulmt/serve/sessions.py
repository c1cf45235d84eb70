"""Sessions, and the rounds in which their words are read.

In each round a thread reads one word of every session that has one, in one batch: all sessions keep
the same pace, and pasting a long text does not slow down other sessions. The event loop meanwhile
receives and sends messages.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge, Le

from simulmt.data.text import normalise
from simulmt.decoding.writing import words_of
from simulmt.errors import UserError
from simulmt.live.interpreter import cut
from simulmt.live.stream import StreamTranslator
from simulmt.serve import messages
from simulmt.serve.messages import Notice, Panes, PaneStep, Setting, Step
from simulmt.serve.models import Served, contained
from simulmt.serve.panes import Pane, SentencePane, read_words
from simulmt.serve.stream_pane import StreamPane

UNSENT = 64
"""The messages, beyond two for each word that may wait, after which a slow client is closed."""
WaitingWords: TypeAlias = Annotated[int, Ge(1), Le(4000)]
Turn: TypeAlias = tuple[Sequence[Pane], str, asyncio.Future[Sequence[PaneStep]]]
_log = logging.getLogger("simulmt.serve")


@dataclass(frozen=True)
class Limits:
    """What a server allows its clients.

    Args:
        sessions: the most sessions at once.
        message_bytes: the most bytes of a message.
        words: the most words of a sentence that a client ends; a longer one is ended there.
        waiting: the most words of a session that wait for the model.
        idle: seconds without a message after which a session ends.
    """

    sessions: Annotated[int, Ge(1), Le(10_000)]
    message_bytes: Annotated[int, Ge(4096), Le(1_000_000)]
    words: WaitingWords
    waiting: WaitingWords
    idle: Annotated[float, Ge(1), Le(86_400)]


class Session:
    """The messages of one socket, and the panes that read its words.

    Attributes:
        waiting: What is to be read: words, ends of sentences (empty), and choices of panes.
        unsent: The texts to be sent; the last one is empty.
        over: Why the session has ended, if it has.
    """

    def __init__(self, number: int, sessions: "Sessions") -> None:
        self.number, self._all, self._limits = number, sessions, sessions.limits
        self.waiting, self.unsent = asyncio.Queue[str | Panes](), asyncio.Queue[str]()
        self.over, self._sentence, self._read = "", 1, 0
        self._panes, self._chosen = list[Pane](), list[Pane]()

    def receive(self, text: str | bytes) -> None:
        """Queue a client's message; the answer to a malformed or too large one is a fault."""
        try:
            self._queue(messages.parse(text))
        except UserError as error:
            self.send(Notice(str(error)[:300], "fault"))

    def send(self, message: messages.FromServer) -> None:
        """Queue a message to the client; end the session if too many are unsent."""
        if self.unsent.qsize() > 2 * self._limits.waiting + UNSENT:
            self.end(f"the connection is too slow: {self.unsent.qsize()} messages are unsent")
        if not self.over:
            self.unsent.put_nowait(messages.text_of(message))

    def end(self, why: str) -> None:
        """End the session, and send its client the reason."""
        if not self.over:
            self.over = why
            self.unsent.put_nowait(messages.text_of(Notice(why, "closed")))
            self.unsent.put_nowait("")

    def _queue(self, message: messages.Message) -> None:
        items: list[str | Panes] = [message if isinstance(message, Panes) else ""]
        most = 2 * self._limits.waiting  # words leave room for their ends
        if isinstance(message, messages.Words):
            most, text = self._limits.waiting, message.text
            text = normalise(text) if self._all.characters else text.replace("\u2581", " ")
            words = words_of(text, self._all.characters)
            items = [part for word in words for part in cut(word, messages.LONGEST_WORD)]
        if (count := self.waiting.qsize() + len(items)) > most:
            raise UserError(f"{count} words would wait, but the limit is {most}: send fewer")
        for item in items:
            self.waiting.put_nowait(item)

    async def interpret(self) -> None:
        """Read what waits, until cancelled."""
        try:
            while True:
                await self._read_next(await self.waiting.get())
        except Exception:  # a fault of ours ends a session, not the server
            _log.exception("error in session=%d", self.number)
            self.end("the server has failed; its log has the reason")

    async def _read_next(self, item: str | Panes) -> None:
        """Read a word or the end of the sentence, or choose other panes."""
        if isinstance(item, Panes):
            try:
                chosen = [asyncio.to_thread(contained, self._all.pane, one) for one in item.panes]
                self._chosen = await asyncio.gather(*chosen)
            except UserError as error:
                self.send(Notice(str(error)[:300]))
        elif item or self._read:  # an empty sentence has no end
            self._read += bool(item)
            ended = await self._step(item, "" if item else "end")
            full = any(pane.translator.full for pane in self._panes)
            full |= self._read >= self._limits.words and not self._all.of_streams
            if full and not ended:
                ended = await self._step("", "long")
            if ended:
                self._finish(ended)
        if self._chosen and self._read and self._all.of_streams:
            self._finish(await self._step("", "panes"))
        if self._chosen and not self._read:  # from the next sentence or stream on
            self._panes, self._chosen = self._chosen, []
            self.send(Panes(tuple(pane.setting for pane in self._panes)))

    async def _step(self, word: str, ended: messages.Ending) -> messages.Ending:
        """Read a word or the end; return why the sentence or the stream has ended, if it has."""
        done = await self._all.read(self._panes, word)
        for place, pane in enumerate(self._panes, 1):
            for number, source, text in pane.ended:
                numbers = self.number, place, number, len(source.split())
                _log.info("sentence session=%d pane=%d number=%d read=%d ended=model", *numbers)
                if self._all.log_text:
                    _log.info("text session=%d source=%r panes=%r", self.number, source, [text])
        self.send(Step(self._sentence, self._read, word, done, ended))
        return ended

    def _finish(self, ended: messages.Ending) -> None:
        """Log the sentence or the stream, and begin another."""
        what = "stream" if self._all.of_streams else "sentence"
        numbers = self.number, self._sentence, self._read
        _log.info("%s session=%d number=%d read=%d ended=%s", what, *numbers, ended)
        if self._all.log_text and not self._all.of_streams:
            texts = [" ".join(pane.words) for pane in self._panes]
            source = " ".join(self._panes[0].source)
            _log.info("text session=%d source=%r panes=%r", self.number, source, texts)
        self._sentence, self._read = self._sentence + 1, 0
        for pane in self._panes:
            contained(pane.reset)


@dataclass(eq=False)
class Sessions:
    """Begins and ends sessions, and reads their words in rounds.

    Args:
        models: what panes may show.
        panes: what the panes of a new session show.
        limits: of sessions, words and time.
        log_text: True to log sentences and translations.
        open: the sessions.
    """

    models: Sequence[Served]
    panes: Sequence[Setting]
    limits: Limits
    log_text: bool = False
    open: set[Session] = field(default_factory=set)
    _begun: int = 0
    _turns: list[Turn] = field(default_factory=list)
    _rounds: asyncio.Task[None] | None = None

    def begin(self) -> Session:
        """Return another session, or one that is over if all are taken."""
        self._begun += 1
        session = Session(self._begun, self)
        if len(self.open) >= self.limits.sessions:
            session.end(f"all {self.limits.sessions} sessions are taken; try again later")
            return session
        self.open.add(session)
        offers = tuple(model.offer for model in self.models)
        by: Literal["client", "model"] = "model" if self.of_streams else "client"
        session.send(messages.Welcome(offers, self.limits.waiting, by))
        session.waiting.put_nowait(Panes(tuple(self.panes)))
        _log.info("began session=%d", session.number)
        return session

    def remove(self, session: Session) -> None:
        """Make room for another session, once the socket of this one is closed."""
        self.open.discard(session)
        _log.info("ended session=%d why=%r", session.number, session.over or "the server stops")

    @property
    def of_streams(self) -> bool:
        """True if a session is one stream, whose sentences the models end."""
        return any(model.cut for model in self.models)

    @property
    def characters(self) -> bool:
        """True if each character of a source is a word, as all models have it."""
        return any(model.offer.characters[0] for model in self.models)

    def pane(self, setting: Setting) -> Pane:
        """Return a pane.

        Raises:
            UserError: no such model, or as for `Served.translator` and `StreamTranslator.of`.
        """
        if setting.model >= len(self.models):
            raise UserError(f"model={setting.model}: there are {len(self.models)}, numbered from 0")
        served = self.models[setting.model]
        translator = served.translator(setting)
        if served.cut:
            return StreamPane(setting, StreamTranslator.of(translator, served.cut))
        return SentencePane(setting, translator)

    async def read(self, panes: Sequence[Pane], word: str) -> tuple[PaneStep, ...]:
        """Return what panes did with a word in the next round."""
        done = asyncio.get_running_loop().create_future()
        self._turns.append((panes, word, done))
        if self._rounds is None or self._rounds.done():
            self._rounds = asyncio.create_task(self._hold_rounds())
        return tuple(await done)

    async def _hold_rounds(self) -> None:
        while self._turns:
            turns, self._turns = self._turns, []
            pairs = [(pane, word) for panes, word, _ in turns for pane in panes]
            try:
                steps = await asyncio.to_thread(read_words, pairs)
            except Exception as error:  # ends the sessions of this round
                for _, _, done in turns:
                    if not done.cancelled():
                        done.set_exception(error)
                continue
            for panes, _, done in turns:
                if not done.cancelled():  # by a client that has left
                    done.set_result([steps[pane] for pane in panes])
            await asyncio.sleep(0)  # sessions queue their next words
