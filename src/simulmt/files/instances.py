"""The log of decoded text, a line of JSON for each sentence or document.

Sentences have SimulEval's `instances.log`, with our own fields `subword_delays` and `before_end`
for `policy=from_file`. Documents have the lines that OmniSTEval reads, with our own fields
`boundaries`, `text`, `references` and `by_step`. SimulEval and OmniSTEval ignore our own fields.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Annotated, TypeVar

from annotated_types import Ge, Le
from pydantic import TypeAdapter

from simulmt.decoding.instance import Instance, texts_of
from simulmt.decoding.recorded import read_recorded
from simulmt.decoding.stream_instance import StreamInstance
from simulmt.decoding.writing import WORDS, Writing, spaced, words_of
from simulmt.errors import UserError
from simulmt.options import parse_json
from simulmt.system.console import warn
from simulmt.system.disk import raw_lines, write_text

T = TypeVar("T")
ENDS_OF_LISTS = (".json", ".jsonl", ".gz")
"""The ends of the names of files with lists of other systems."""
_TRANSLATE = "Translate the source sentence into the target language:"


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
    subword_delays: tuple[int, ...] = ()
    before_end: int = 0


_LINE, _STREAM = TypeAdapter(_Line), TypeAdapter(StreamInstance)


def to_json(instance: Instance) -> str:
    """Return the line of an instance, in words, without a line end; texts are as people write them.

    `elapsed` is left out if the times were not measured, since scorers would read zeros as times.
    """
    optional = ("elapsed", "subword_delays", "before_end")
    names = [field.name for field in fields(_Line)]
    keys = (name for name in names if name not in optional or getattr(instance, name))
    line = {key: getattr(instance, key) for key in keys}
    line |= zip(("source", "reference", "prediction"), texts_of(instance), strict=True)
    return json.dumps(line, ensure_ascii=False)


def write_instances(path: Path, instances: Iterable[Instance]) -> None:
    """Write a SimulEval `instances.log`, ordered by sentence index."""
    ordered = sorted(instances, key=lambda instance: instance.index)
    write_text(path, "".join(f"{to_json(instance)}\n" for instance in ordered))


def write_streams(path: Path, instances: Iterable[StreamInstance]) -> None:
    """Write the log of some documents, in their order, without fields that are empty."""
    lines = (_STREAM.dump_json(i, exclude_defaults=True).decode() for i in instances)
    write_text(path, "".join(f"{line}\n" for line in lines))


def write_lists(path: Path, instances: Iterable[Instance]) -> None:
    """Write SiLLM's lists: the source words read before each word of `output`, the prediction."""
    lists = (
        {"instruction": _TRANSLATE, "input": i.source, "output": i.prediction, "policy": i.delays}
        for i in sorted(instances, key=lambda instance: instance.index)
    )
    text = ",\n".join(json.dumps(each, ensure_ascii=False) for each in lists)
    write_text(path, f"[{text}]\n")


def read_instances(path: Path, writing: Writing = WORDS) -> list[Instance]:
    """The instances of a SimulEval `instances.log`, by index; ignores unknown keys and empty lines.

    SimulEval writes zeros as `elapsed` for text; these count as not measured.

    Args:
        path: the log.
        writing: what a word is, on either side.

    Raises:
        UserError: the file cannot be read, or a line is corrupt; the message names the line.
    """
    return sorted(read_log(path, partial(_parse, writing)), key=lambda instance: instance.index)


def read_lists(path: Path, writing: Writing = WORDS) -> list[Instance]:
    """Return the sentences of lists with `rw` or `policy` (`simulmt.decoding.recorded`).

    Delays are clipped to the length of the source, if it is given. A list has a delay for each
    written word; a text with a different number of words is truncated or padded with `_`, with a
    warning.

    Raises:
        UserError: the file cannot be read, or a sentence is corrupt; the message has its number.
    """
    found, others = [], 0
    for index, one in enumerate(read_recorded(path)):
        words, own = words_of(one.target, writing.target), spaced(one.source, writing.source)
        length = len(own.split())
        count, delays = len(one.reads), tuple(min(r, length or r) for r in one.reads)
        others += count != len(words)
        words = [*words[:count], *["_"] * (count - len(words))]
        texts = (own, spaced(one.reference, writing.target), " ".join(words))
        found.append(Instance(index, *texts, delays, writing=writing))
    if others:
        warn(
            f"{path}: {others:,} of {len(found):,} lists do not have one delay per word of their "
            "text: use their latency, but not their BLEU"
        )
    return found


def read_streams(path: Path) -> list[StreamInstance]:
    """Return the documents of a log; unknown keys and empty lines are ignored.

    Raises:
        UserError: as for `read_instances`.
    """
    return read_log(path, partial(parse_json, _STREAM))


def read_log(path: Path, parse: Callable[[bytes], T]) -> list[T]:
    """Return what `parse` returns for each line of a log that is not empty.

    Raises:
        UserError: the file cannot be read, or `parse` raises this or a ValueError; the message
            names the line.
    """
    found = []
    for number, line in enumerate(raw_lines(path), 1):
        if not line.strip():
            continue
        try:
            found.append(parse(line))
        except (UserError, ValueError) as error:
            raise UserError(
                f"{path}, line {number}: {shorten(str(error), 200)}; decode again, or remove the "
                "line"
            ) from error
    return found


def _parse(writing: Writing, text: bytes) -> Instance:
    """The instance of one line of an `instances.log`; an error if the line is corrupt."""
    line = parse_json(_LINE, text)
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
