"""Sessions, and the rounds in which their words are read.

In each round a thread reads one word of every session that has one, in one batch: all sessions go
on at the same pace, and a pasted book delays nobody else. The event loop meanwhile goes on taking
and sending messages.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from simulmt.data.text import normalise
from simulmt.errors import UserError
from simulmt.live.interpreter import cut
from simulmt.live.translator import Translator
from simulmt.serve import messages
from simulmt.serve.limits import FAULTS, LONGEST_WORD, UNSENT, Limits
from simulmt.serve.messages import Event, Notice, Panes, Setting, Step
from simulmt.serve.models import Served
from simulmt.serve.panes import Pane, read_words

_log = logging.getLogger("simulmt.serve")


class Session:
    """What one socket has said and is told, and the panes that read its words.

    Args:
        number: for the log.
        build: returns the translator of a setting.
        limits: of words.
        wake: called when there is something to read.
    """

    def __init__(
        self,
        number: int,
        build: Callable[[Setting], Translator],
        limits: Limits,
        wake: Callable[[], None],
    ) -> None:
        self.number, self._build, self._limits, self._wake = number, build, limits, wake
        self.waiting = deque[str | Panes]()
        """What is to be read: words, ends of sentences (empty), and choices of panes."""
        self.unsent = asyncio.Queue[str]()
        """What is to be sent; the last text is empty."""
        self.over = ""
        """Why the session has ended, if it has."""
        self.panes, self.chosen = list[Pane](), list[Pane]()
        self.sentence, self.read, self.faults = 1, 0, 0

    # in the event loop

    def hear(self, text: str | bytes) -> None:
        """Take a message; too many that are malformed, or too much at once, end the session."""
        try:
            self._take(messages.parse(text))
        except UserError as error:
            self.faults += 1
            self.tell(Notice(str(error)[:300], "fault"))
            if self.faults == FAULTS:
                self.end(f"{FAULTS} messages were malformed")

    def tell(self, event: Event) -> None:
        """Have an event sent; who does not read what it is sent is closed."""
        if self.unsent.qsize() > 2 * self._limits.waiting + UNSENT:
            self.end(f"the connection is too slow: {self.unsent.qsize()} events wait for it")
        if not self.over:
            self.unsent.put_nowait(messages.text_of(event))

    def end(self, why: str) -> None:
        """End the session, and tell its client why."""
        if not self.over:
            self.over = why
            self.unsent.put_nowait(messages.text_of(Notice(why, "closed")))
            self.unsent.put_nowait("")

    def _take(self, message: messages.Message) -> None:
        waiting, most = len(self.waiting), self._limits.waiting
        if isinstance(message, messages.Words):
            words = [part for w in normalise(message.text).split() for part in cut(w, LONGEST_WORD)]
            if waiting + len(words) > most:
                raise UserError(f"{len(words)} words, and {waiting} wait; {most} may: send fewer")
            self.waiting += words
        elif waiting < 2 * most:  # words leave room for their ends
            self.waiting.append(message if isinstance(message, Panes) else "")
        else:
            raise UserError(f"{waiting} messages wait; send fewer")
        self._wake()

    # in the thread that has the models

    @property
    def full(self) -> bool:
        """Whether the sentence is as long as it may be."""
        full = any(pane.translator.full for pane in self.panes)
        return full or self.read >= self._limits.words

    @property
    def text(self) -> str:
        """The sentence and its translations so far."""
        source = [pane.translator.words_read for pane in self.panes[:1]]
        return " | ".join(" ".join(words) for words in (*source, *(p.words for p in self.panes)))

    def choose(self, settings: Sequence[Setting]) -> list[Event]:
        """Take other panes: now between two sentences, else with the next sentence."""
        try:
            self.chosen = [Pane(setting, self._build(setting)) for setting in settings]
        except UserError as error:
            return [Notice(str(error)[:300])]
        return [] if self.read else self._change()

    def begin(self) -> list[Event]:
        """Begin another sentence, with other panes if others were chosen."""
        self.sentence, self.read = self.sentence + 1, 0
        for pane in self.panes:
            pane.reset()
        return self._change() if self.chosen else []

    def _change(self) -> list[Event]:
        self.panes, self.chosen = self.chosen, []
        return [Panes(tuple(pane.setting for pane in self.panes))]


class Sessions:
    """Begins and ends sessions, and has their words read.

    Args:
        models: what panes may show.
        panes: what the panes of a new session show.
        limits: of sessions, words and time.
        log_text: whether sentences and translations are logged.
    """

    def __init__(
        self,
        models: Sequence[Served],
        panes: Sequence[Setting],
        limits: Limits,
        log_text: bool = False,
    ) -> None:
        self.models, self.panes, self.limits, self.log_text = models, panes, limits, log_text
        self.open = set[Session]()
        self._begun, self._work = 0, asyncio.Event()

    def begin(self) -> Session:
        """Return another session; one that is over if all are taken."""
        self._begun += 1
        session = Session(self._begun, self.translator, self.limits, self._work.set)
        if len(self.open) >= self.limits.sessions:
            session.end(f"all {self.limits.sessions} sessions are taken; try again later")
            return session
        self.open.add(session)
        offers = tuple(model.offer for model in self.models)
        session.tell(messages.Welcome(offers, self.limits.waiting))
        session.waiting.append(Panes(tuple(self.panes)))
        self._work.set()
        _log.info("began session=%d", session.number)
        return session

    def forget(self, session: Session) -> None:
        """Make room for another session: the socket of this one is closed."""
        self.open.discard(session)
        _log.info("ended session=%d why=%r", session.number, session.over or "its client has left")

    async def run(self) -> None:
        """Read words, for ever."""
        while True:
            await self._work.wait()
            self._work.clear()
            while items := {one: one.waiting.popleft() for one in self.open if one.waiting}:
                try:
                    for session, events in (await asyncio.to_thread(self.play, items)).items():
                        for event in events:
                            session.tell(event)
                except Exception:  # a fault of ours costs a round, not the server
                    _log.exception("error in a round")

    def translator(self, setting: Setting) -> Translator:
        """Return the translator of a setting.

        Raises:
            UserError: no such model, or as for `Served.translator`.
        """
        if setting.model >= len(self.models):
            raise UserError(f"model={setting.model}: there are {len(self.models)}, from 0")
        return self.models[setting.model].translator(setting)

    def play(self, items: Mapping[Session, str | Panes]) -> dict[Session, list[Event]]:
        """Return what follows from an item of each session."""
        played, words = dict[Session, list[Event]](), dict[Session, str]()
        for session, item in items.items():
            played[session] = session.choose(item.panes) if isinstance(item, Panes) else []
            if isinstance(item, str) and (item or session.read):  # an empty sentence has no end
                words[session] = item
        for session, step in _read(words, "end").items():
            played[session] += self._after(session, step)
        full = {session: "" for session in words if session.full}
        for session, step in _read(full, "long").items():
            played[session] += self._after(session, step)
        return played

    def _after(self, session: Session, step: Step) -> list[Event]:
        """Return a step, and what follows if the sentence has ended."""
        if not step.ended:
            return [step]
        text = f" text={session.text!r}" if self.log_text else ""
        numbers = session.number, step.sentence, step.read
        _log.info("sentence session=%d number=%d read=%d ended=%s%s", *numbers, step.ended, text)
        return [step, *session.begin()]


def _read(words: Mapping[Session, str], ending: messages.Ending) -> dict[Session, Step]:
    """Have all sessions read a word, or the end of the sentence; one whose model fails ends it."""
    done = read_words([(pane, word) for one, word in words.items() for pane in one.panes])
    steps = dict[Session, Step]()
    for session, word in words.items():
        session.read += bool(word)
        panes = tuple(done[pane] for pane in session.panes if pane in done)
        step = Step(session.sentence, session.read, word, panes, "" if word else ending)
        failed = len(panes) < len(session.panes)
        steps[session] = replace(step, panes=(), ended="failed") if failed else step
    return steps
