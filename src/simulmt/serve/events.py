"""What the server says on the socket: a greeting, numbered events, and answers to faults."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias

from simulmt.serve.messages import VERSION, Setting

Ending: TypeAlias = Literal["", "end", "long"]
"""Why a sentence ends: the client says so, or it is too long; empty if it does not end."""
Ended: TypeAlias = Literal["", "end", "long", "failed"]
"""Why a sentence has ended; a model may also have failed."""


@dataclass(frozen=True)
class Written:
    """A target word.

    Attributes:
        text: The word.
        delay: The number of source words that were read when it was written.
        heads: The source word at which each head stood, from 1; one more than there are for EOS, 0
            once the head has run off the end. Empty if heads do not stop.
    """

    text: str
    delay: int
    heads: tuple[int, ...] = ()


@dataclass(frozen=True)
class PaneStep:
    """What one pane did with a source word.

    Attributes:
        kept: The number of target words that stay; those behind it are replaced by `words`. Only a
            policy that revises takes words back.
        words: The new target words.
        erased: The number of target words of the sentence that were taken back until now.
        lag: The average lagging if the sentence ended here, in source words; None before a word.
        ms: Milliseconds of computing.
    """

    kept: int
    words: tuple[Written, ...]
    erased: int
    lag: float | None
    ms: float


@dataclass(frozen=True)
class Step:
    """All panes have read a word, or the end of the sentence.

    Attributes:
        sentence: The number of the sentence, from 1.
        read: The number of its words that are read.
        word: The source word; empty at the end.
        panes: One for each pane; empty if a model failed.
        ended: Why the sentence has ended, if it has.
    """

    sentence: int
    read: int
    word: str
    panes: tuple[PaneStep, ...]
    ended: Ended = ""


@dataclass(frozen=True)
class InForce:
    """These panes hold for the sentence that follows."""

    panes: tuple[Setting, ...]


@dataclass(frozen=True)
class Notice:
    """A line for the user."""

    text: str


Event: TypeAlias = Step | InForce | Notice
_NAMES: Mapping[type[Event], str] = {Step: "step", InForce: "panes", Notice: "notice"}


def event_text(event: Event, number: int, heard: int) -> str:
    """Return the text of an event; ASCII, so that any string in it can be sent.

    Args:
        event: the event.
        number: its number, from 1.
        heard: the number of messages that were heard before it.
    """
    return json.dumps({"type": _NAMES[type(event)], "n": number, "heard": heard, **asdict(event)})


@dataclass(frozen=True)
class Option:
    """A number that a user may set.

    Attributes:
        name: Of the option.
        value: The default; None for an option that may be left out.
        why: Its explanation.
        whole: Whether the number is whole.
        least: The least value, if that is 0 or one step above 0; else None.
        most: The largest value, if that is 1 or one step below 1; else None.
        optional: Whether it may be left out.
    """

    name: str
    value: float | None
    why: str
    whole: bool
    least: float | None
    most: float | None
    optional: bool


@dataclass(frozen=True)
class PolicyOffer:
    """A policy that suits a model, with its options.

    Attributes:
        name: Of the policy.
        why: What it does.
        revises: Whether it takes words back.
        options: Its options.
        dials: The values that it gives to the model's dials, unless the user gives others.
    """

    name: str
    why: str
    revises: bool
    options: tuple[Option, ...]
    dials: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelOffer:
    """A model, with its dials and the policies that suit it."""

    name: str
    about: str
    dials: tuple[Option, ...]
    policies: tuple[PolicyOffer, ...]


@dataclass(frozen=True)
class Welcome:
    """The answer to `Hello`.

    Attributes:
        token: Of the session; whoever knows it may go on with the session.
        resumed: Whether the session goes on; otherwise it is new.
        heard: The number of messages that were heard.
        models: What panes may show.
        panes: What panes show in a new session.
        most_panes: The most panes.
        words: The most words of a sentence.
        waiting: The most words that may wait.
        message_bytes: The most bytes of a message.
        longest_word: The most characters of a word.
    """

    token: str
    resumed: bool
    heard: int
    models: tuple[ModelOffer, ...]
    panes: tuple[Setting, ...]
    most_panes: int
    words: int
    waiting: int
    message_bytes: int
    longest_word: int


def welcome_text(welcome: Welcome) -> str:
    """Return the text of the greeting."""
    return json.dumps({"type": "welcome", "version": VERSION, **asdict(welcome)})


def refusal_text(reason: str, again: bool) -> str:
    """Return the text of the last message on a connection that the server closes.

    Args:
        reason: why.
        again: whether the client may connect again by itself.
    """
    return json.dumps({"type": "refused", "text": reason, "again": again})


def fault_text(reason: str) -> str:
    """Return the answer to a message that is not understood; no event, since nothing happened."""
    return json.dumps({"type": "fault", "text": reason[:300]})
