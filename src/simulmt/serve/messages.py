"""The messages of clients and the server on the socket: JSON, one object a message.

One socket is one session. The server greets with `welcome`. The client then sends words, ends
sentences and chooses panes; the server answers with `step`, `panes` and `notice` as they happen,
with `fault` to a message that it does not understand, and with `closed` before it ends a session.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge, Len
from pydantic import Field, TypeAdapter

from simulmt.decoding.policies import OWN
from simulmt.options import STRICT, parse_json

LONGEST_WORD = 100
"""The most characters of a word; a longer one is read in pieces, as it would hold up a round."""
PANES = 2
"""The most panes of a session."""
Ending: TypeAlias = Literal["", "end", "long", "panes"]
"""Why a sentence or a stream ends: the client ended it, it is too long, or, for a stream, other
panes were chosen; else empty."""


@dataclass(frozen=True)
class Setting:
    """What a pane shows: a model, a policy with its options, and dials that differ from training.

    Attributes:
        model: The number of the model, from 0.
    """

    model: Annotated[int, Ge(0)] = 0
    policy: str = OWN
    options: Mapping[str, int | float | None] = field(default_factory=dict)
    dials: Mapping[str, int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class Words:
    """Whole source words, one or more."""

    text: str
    type: Literal["words"] = "words"


@dataclass(frozen=True)
class End:
    """The sentence, or the stream, has ended."""

    type: Literal["end"] = "end"


@dataclass(frozen=True)
class Panes:
    """From a client, the panes of the next sentence; from the server, the panes from now on.

    A stream ends at once, and another begins with these panes.
    """

    panes: Annotated[tuple[Setting, ...], Len(1, PANES)]
    type: Literal["panes"] = "panes"


Message: TypeAlias = Words | End | Panes
_MESSAGES: TypeAdapter[Message] = TypeAdapter(
    Annotated[Message, Field(discriminator="type")], config=STRICT
)


def parse(text: str | bytes) -> Message:
    """Return the message of a client.

    Raises:
        UserError: the text is not a message; the error gives the place and the reason.
    """
    return parse_json(_MESSAGES, text)


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
class SentenceEnd:
    """A pane has ended a sentence of a stream.

    Attributes:
        sentence: The number of the sentence in this pane, from 1.
        written: How many of the step's target words precede the end.
        length: The number of its source words; those that were read after them belong to the next
            sentence.
    """

    sentence: int
    written: int
    length: int


@dataclass(frozen=True)
class PaneStep:
    """What one pane did with a source word.

    In a stream, `kept` and `lag` are of the open sentence; delays and heads count the words of the
    stream. A pane of a stream that has failed begins again with the next word.

    Attributes:
        kept: The number of target words that stay; `words` replace those after them. Only a
            policy that revises takes words back.
        words: The new target words.
        lag: The average lagging if the sentence ended here, in source words; None before a word.
        ms: Milliseconds of computing.
        failed: True if the model or the policy has failed; the pane reads no more of the sentence.
        ends: The sentences of a stream that have ended; None if the client ends sentences.
    """

    kept: int
    words: tuple[Written, ...] = ()
    lag: float | None = None
    ms: float = 0
    failed: bool = False
    ends: tuple[SentenceEnd, ...] | None = None


@dataclass(frozen=True)
class Step:
    """All panes have read a word, or the end of the sentence or of the stream.

    Attributes:
        sentence: The number of the sentence, or of the stream, from 1.
        read: The number of its words that are read.
        word: The source word; empty at the end.
        panes: One for each pane.
        ended: Why the sentence or the stream has ended, if it has.
    """

    sentence: int
    read: int
    word: str
    panes: tuple[PaneStep, ...]
    ended: Ending = ""
    type: Literal["step"] = "step"


@dataclass(frozen=True)
class Notice:
    """A line for the user: about a choice of panes, a faulty message, or the end of the session."""

    text: str
    type: Literal["notice", "fault", "closed"] = "notice"


@dataclass(frozen=True)
class Option:
    """A number that a user may set, with its default, its explanation, and its JSON schema."""

    name: str
    value: float | None
    why: str
    schema: Mapping[str, object]


@dataclass(frozen=True)
class PolicyOffer:
    """A policy, with its options.

    Attributes:
        name: Of the policy.
        why: What it does.
        revises: True if it takes words back.
        options: Its options.
        dials: The values that it gives to the model's dials, unless the user gives others.
        overrules: True if the model's dials have no influence.
        unsuitable: Why it does not suit the model; empty if it does.
        possible: True unless the model rejects it.
    """

    name: str
    why: str
    revises: bool
    options: tuple[Option, ...]
    dials: Mapping[str, float] = field(default_factory=dict)
    overrules: bool = False
    unsuitable: str = ""
    possible: bool = True


@dataclass(frozen=True)
class ModelOffer:
    """A model, with its dials and all policies.

    Attributes:
        name: Of the model.
        mechanism: The name of its mechanism.
        languages: The codes of the source language and of the target language.
        dials: Its dials.
        policies: Those that suit it, and the others with the reason.
        examples: Source sentences to try.
        characters: For each language, True if each of its characters is a word.
    """

    name: str
    mechanism: str
    languages: tuple[str, str]
    dials: tuple[Option, ...]
    policies: tuple[PolicyOffer, ...]
    examples: tuple[str, ...] = ()
    characters: tuple[bool, bool] = (False, False)


@dataclass(frozen=True)
class Welcome:
    """The greeting: what panes may show, the most words that may wait, and who ends sentences."""

    models: tuple[ModelOffer, ...]
    waiting: int
    sentences: Literal["client", "model"] = "client"
    most_panes: int = PANES
    longest_word: int = LONGEST_WORD
    type: Literal["welcome"] = "welcome"


FromServer: TypeAlias = Welcome | Step | Panes | Notice


def text_of(message: FromServer) -> str:
    """Return the text of a message; ASCII, so that any string in it can be sent."""
    return json.dumps(message, default=vars)
