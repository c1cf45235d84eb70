"""The log of decoded text, a line of JSON for each sentence or document.

Sentences have SimulEval's `instances.log`. Documents have the lines that OmniSTEval reads, which
ignores our own fields `boundaries` and `text`.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Annotated, TypeVar

from annotated_types import Ge, Le
from pydantic import TypeAdapter, ValidationError

from simulmt.decoding.instance import Instance, texts_of
from simulmt.decoding.stream_instance import StreamInstance
from simulmt.decoding.writing import WORDS, Writing, spaced
from simulmt.errors import UserError
from simulmt.system.disk import replacing

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class _Line:
    """The fields of an instance in `instances.log`, in their order."""

    index: int
    prediction: str
    delays: tuple[Annotated[int, Ge(0), Le(1_000_000)], ...]
    elapsed: tuple[float, ...] = ()
    prediction_length: int
    reference: str
    source: str
    source_length: int


_LINE, _STREAM = TypeAdapter(_Line), TypeAdapter(StreamInstance)


def to_json(instance: Instance) -> str:
    """Return the line of an instance, in words, without a line end; texts are as people write them.

    `elapsed` is left out if the times were not measured, since scorers would read zeros as times.
    """
    keys = (field.name for field in fields(_Line) if field.name != "elapsed" or instance.elapsed)
    line = {key: getattr(instance, key) for key in keys}
    line |= zip(("source", "reference", "prediction"), texts_of(instance), strict=True)
    return json.dumps(line, ensure_ascii=False)


def write_instances(path: Path, instances: Iterable[Instance]) -> None:
    """Write a SimulEval `instances.log`, ordered by sentence index."""
    _write(path, map(to_json, sorted(instances, key=lambda instance: instance.index)))


def write_streams(path: Path, instances: Iterable[StreamInstance]) -> None:
    """Write the log of some documents, in their order, without fields that are empty."""
    _write(path, (_STREAM.dump_json(i, exclude_defaults=True).decode() for i in instances))


def _write(path: Path, lines: Iterable[str]) -> None:
    text = "".join(line + "\n" for line in lines)
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", newline="\n")


def read_instances(path: Path, writing: Writing = WORDS) -> list[Instance]:
    """The instances of a SimulEval `instances.log`; unknown keys and empty lines are ignored.

    SimulEval writes zeros as `elapsed` for text; these count as not measured.

    Args:
        path: the log.
        writing: what a word is, on either side.

    Raises:
        UserError: the file cannot be read, or a line is corrupt; the message names the line.
    """
    return _read(path, partial(_parse, writing))


def read_streams(path: Path) -> list[StreamInstance]:
    """Return the documents of a log; unknown keys and empty lines are ignored.

    Raises:
        UserError: as for `read_instances`.
    """
    return _read(path, partial(_checked, _STREAM))


def _read(path: Path, parse: Callable[[bytes], T]) -> list[T]:
    """Return what `parse` returns for each line of a log that is not empty.

    Raises:
        UserError: the file cannot be read, or `parse` raises a ValueError; the message names the
            line.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found.append(parse(line))
        except ValueError as error:
            raise UserError(
                f"{path}, line {number}: {shorten(str(error), 200)}; decode again, or remove the "
                "line"
            ) from error
    return found


def _checked(kind: TypeAdapter[T], text: bytes) -> T:
    """Return a line of JSON as a dataclass; ValueError with the first field that is wrong."""
    try:
        return kind.validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "the line"
        raise ValueError(f"{name} is {first['input']!r:.80}: {first['msg']}") from None


def _parse(writing: Writing, text: bytes) -> Instance:
    """The instance of one line of an `instances.log`; ValueError if the line is corrupt."""
    line = _checked(_LINE, text)
    instance = Instance(
        line.index,
        spaced(line.source, writing.source),
        spaced(line.reference, writing.target),
        spaced(line.prediction, writing.target),
        line.delays,
        elapsed=line.elapsed if any(line.elapsed) else (),
        writing=writing,
    )
    said, found = ((i.prediction_length, i.source_length) for i in (line, instance))
    if said != found:
        raise ValueError(f"prediction_length and source_length are {said}, the texts have {found}")
    return instance
