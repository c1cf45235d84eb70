"""The log of translated documents: a line of JSON for each, as OmniSTEval reads it."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter

from simulmt.decoding.stream_instance import StreamInstance
from simulmt.files.instances import checked, read_log
from simulmt.system.disk import replacing

_LINE = TypeAdapter(StreamInstance)


def write_streams(path: Path, instances: Iterable[StreamInstance]) -> None:
    """Write the log of some documents, without the fields that are empty."""
    lines = [
        {k: v for k, v in asdict(i).items() if v or k in ("prediction", "delays")}
        for i in instances
    ]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", newline="\n")


def read_streams(path: Path) -> list[StreamInstance]:
    """Return the documents of a log; unknown keys and empty lines are ignored.

    Raises:
        UserError: the file cannot be read, or a line is corrupt; the message names the line.
    """
    return read_log(path, lambda text: checked(_LINE, text))
