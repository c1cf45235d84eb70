"""Reads and writes of sentences as data: logs, and the lists of other systems.

A file is a JSON list or has an object on each line; it may end in `.gz`. Each sentence has one of

- `delays`, source words read before each target word (`instances.log` of SimulEval and simulmt);
- `rw`, 0 for READ and 1 for WRITE, in words (LLM-SimulMT);
- `policy`, source words read before each target word (SiLLM).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge, Le
from pydantic import AliasChoices, Field, TypeAdapter, ValidationError

from simulmt.errors import UserError
from simulmt.system.disk import raw_lines

Reads: TypeAlias = tuple[Annotated[int, Ge(0), Le(1_000_000)], ...]
"""What had been read before each written unit."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The reads and writes of one sentence, as a file has them.

    Attributes:
        index: Its place in the text; None if the file's order tells it.
        source: The source, if the file has it.
        target: What was written; of a SiLLM list `output`, which may be the reference.
        reference: The reference, if the file has it.
        delays: Source words read before each target word, as logs have them.
        policy: The same in a SiLLM list.
        rw: The reads and writes in their order.
        subword_delays: Source subwords read before each target subword, EOS included; empty in
            files of other systems.
        before_end: The number of words written before the end of the source had been read; None
            for those whose delay is below the source's length.
    """

    index: int | None = None
    source: Annotated[str, Field(validation_alias=AliasChoices("source", "src", "input"))] = ""
    target: Annotated[str, Field(validation_alias=AliasChoices("prediction", "hyp", "output"))] = ""
    reference: Annotated[str, Field(validation_alias=AliasChoices("reference", "tgt"))] = ""
    delays: Reads | None = None
    policy: Reads | None = None
    rw: tuple[Literal[0, 1], ...] | None = None
    subword_delays: Reads = ()
    before_end: Annotated[int, Ge(0)] | None = None

    def __post_init__(self) -> None:
        if [self.delays, self.policy, self.rw].count(None) != 2:
            raise ValueError("give one of delays, policy and rw")

    @cached_property
    def reads(self) -> Reads:
        """The source words read before each target word; they never fall."""
        if self.rw is None:
            return tuple(accumulate(self.delays or self.policy or (), max))
        read = accumulate(1 - write for write in self.rw)
        return tuple(count for count, write in zip(read, self.rw, strict=True) if write)


_FILE = TypeAdapter(list[Recorded])


def read_recorded(path: Path) -> list[Recorded]:
    """The sentences of a file, by their index if they have one, else in the order of the file.

    Raises:
        UserError: the file cannot be read, or a sentence is corrupt; the message has its number.
    """
    text = b"".join(raw_lines(path))
    if not text.lstrip().startswith(b"["):
        text = b"[" + b",".join(line for line in text.split(b"\n") if line.strip()) + b"]"
    try:
        found = _FILE.validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        number, *name = first["loc"] or ("?",)
        where = f"sentence {number + 1}" if isinstance(number, int) else "the file"
        raise UserError(
            f"{path}: {where}{': ' * bool(name)}{'.'.join(map(str, name))}: {first['msg']}; give "
            "an instances.log, or lists with `rw` or `policy`"
        ) from None
    return sorted(found, key=lambda one: one.index or 0)


def check_text(found: Sequence[Recorded], sources: Sequence[str], option: str) -> None:
    """Check that the sentences of a file are those of a text.

    Args:
        found: the sentences of the file.
        sources: the text, with spaces between words.
        option: the option that names the file, and its value.

    Raises:
        UserError: the file is of another text.
    """
    if len(found) != len(sources):
        raise UserError(
            f"{option} has {len(found):,} sentences, the text {len(sources):,}: give a file "
            "of the same text"
        )
    for number, (one, source) in enumerate(zip(found, sources, strict=True), 1):
        # a file may lack the spaces between characters
        if one.source and "".join(one.source.split()) != "".join(source.split()):
            raise UserError(
                f"{option}, sentence {number}: its source is {one.source[:60]!r}, that of "
                f"the text {source[:60]!r}: give a file of the same text"
            )
