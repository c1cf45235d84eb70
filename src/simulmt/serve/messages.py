"""What a client says on the socket: JSON, one object a message.

A client says `hello` first, with the token of its session if it had one. Then it sends words, ends
sentences, chooses panes, and confirms the events that it has seen. The server greets with
`welcome`, and then sends events (`simulmt.serve.events`). They are numbered from 1 in each session,
so that a client that comes back gets exactly those that it missed. They say how many messages were
heard, so that the client repeats exactly those that were lost; `hello` and `seen` do not count.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from annotated_types import MaxLen

from simulmt.errors import UserError
from simulmt.options import Natural, construct
from simulmt.untrusted import check_plain, parse_json

VERSION = 1
"""Of these messages; a client of another version is told to load the page anew."""
Name: TypeAlias = Annotated[str, MaxLen(100)]


class MalformedError(Exception):
    """A message that cannot be understood or followed; the error says why."""


@dataclass(frozen=True)
class Hello:
    """The first message; a token names the session to resume."""

    version: int
    token: Name | None = None
    seen: Natural = 0


@dataclass(frozen=True)
class Words:
    """Whole source words, one or more."""

    text: str


@dataclass(frozen=True)
class End:
    """The sentence has ended."""


@dataclass(frozen=True)
class Seen:
    """All events up to this number have arrived."""

    number: Natural


@dataclass(frozen=True)
class Setting:
    """What a pane shows: a model, a policy with its options, and dials that differ from training.

    Attributes:
        model: The number of the model, from 0.
    """

    model: Natural
    policy: Name
    options: dict[str, float | None]
    dials: dict[str, float]


@dataclass(frozen=True)
class Panes:
    """The panes from the next sentence on."""

    panes: list[Setting]


Message: TypeAlias = Hello | Words | End | Seen | Panes
_KINDS: Mapping[str, Callable[..., Message]] = {
    "hello": Hello,
    "words": Words,
    "end": End,
    "seen": Seen,
    "panes": Panes,
}


def parse(text: str) -> Message:
    """Return the message of a text.

    Raises:
        MalformedError: the text is no message.
    """
    try:
        fields = parse_json(text.encode("utf-8"))
        check_plain(fields)
    except ValueError as error:  # half a surrogate pair is one
        raise MalformedError(f"not JSON in UTF-8: {error}") from None
    kind = fields.pop("type", None) if isinstance(fields, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise MalformedError(f"no message has such a type; the types are {', '.join(_KINDS)}")
    try:
        return construct(_KINDS[kind], fields, kind)
    except UserError as error:
        raise MalformedError(str(error)) from None
    except (TypeError, KeyError):  # of a part of a message
        raise MalformedError(f"{kind}: a field is missing, unknown or of a wrong kind") from None
