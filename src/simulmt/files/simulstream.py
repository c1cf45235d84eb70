"""The log of simulstream, with what a speech translator wrote and took back after each step.

The format is not documented: it is what simulstream's own `LogReader` (1.0.0) reads.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from pydantic import FiniteFloat, TypeAdapter

from simulmt.decoding.stream_instance import StreamInstance
from simulmt.decoding.writing import as_written, words_of
from simulmt.files.instances import read_log
from simulmt.options import parse_json

_SPACE = "\u2581"  # of SentencePiece


@dataclass(frozen=True)
class _Recording:
    wav_name: str


@dataclass(frozen=True)
class _Line:
    """A line that names the recording of an id, a step of it, or (without an id) neither."""

    id: int | str | None = None
    metadata: _Recording | None = None


@dataclass(frozen=True)
class _Step:
    """What a recording's translation lost and gained; times are in seconds."""

    total_audio_processed: FiniteFloat
    computation_time: FiniteFloat
    generated_tokens: tuple[str, ...]
    deleted_tokens: tuple[str, ...]


_LINE, _STEP = TypeAdapter(_Line), TypeAdapter(_Step)


@dataclass
class _Output:
    """The tokens and the words of a recording so far; times are in seconds."""

    characters: bool
    read: float = 0
    tokens: tuple[str, ...] = ()
    words: list[str] = field(default_factory=list)
    times: list[tuple[float, float]] = field(default_factory=list)

    def become(self, tokens: tuple[str, ...], now: tuple[float, float]) -> None:
        """Change the tokens; a word that is new, or ends differently, gets the time `now`."""
        before, self.tokens, self.words = self.words, tokens, _words(tokens, self.characters)
        length = len(self.words)
        self.times = self.times[:length] + [now] * (length - len(self.times))
        last = min(len(before), length) - 1
        if last >= 0 and before[last] != self.words[last]:
            self.times[last] = now


def _words(tokens: Sequence[str], characters: bool) -> list[str]:
    """Return the words of tokens: SentencePiece's if any has its sign for a space, else words."""
    pieces = any(_SPACE in token for token in tokens)
    text = "".join(tokens).replace(_SPACE, " ") if pieces else " ".join(tokens)
    return words_of(text, characters)


def read_simulstream(path: Path, characters: bool = False) -> list[StreamInstance]:
    """Return the recordings of a log, in milliseconds, without the words that were taken back.

    The computing time of a word is that of its step alone.

    Args:
        path: The log.
        characters: True if each character of the translation is a word.

    Raises:
        UserError: the file cannot be read, or a line is corrupt; the message names the line.
    """
    names, outputs = dict[int | str, str](), dict[str, _Output]()
    recordings = dict[str, str]()  # by name

    def follow(text: bytes) -> None:
        line = parse_json(_LINE, text)
        if line.id is None:
            return
        if line.metadata:
            file, name = line.metadata.wav_name, PurePath(line.metadata.wav_name).stem
            if recordings.setdefault(name, file) != file:
                raise ValueError(f"{recordings[name]} and {file} have the same name {name!r}")
            names[line.id] = name
            return
        if line.id not in names:
            raise ValueError(f"id {line.id!r} has no recording: no line before has its metadata")
        output = outputs.setdefault(names[line.id], _Output(characters))
        step = parse_json(_STEP, text)
        if step.total_audio_processed < output.read:
            raise ValueError("total_audio_processed decreases: the log has this recording twice")
        output.read = step.total_audio_processed
        kept = len(output.tokens) - len(step.deleted_tokens)
        if kept < 0 or output.tokens[kept:] != step.deleted_tokens:
            raise ValueError("deleted_tokens are not the last tokens written before")
        now = (1000 * output.read, 1000 * (output.read + step.computation_time))
        for tokens in (output.tokens[:kept], output.tokens[:kept] + step.generated_tokens):
            output.become(tokens, now)

    read_log(path, follow)
    found = []
    for name, output in outputs.items():
        delays, elapsed = (tuple(time[kind] for time in output.times) for kind in (0, 1))
        text = as_written(output.words, characters)
        found.append(StreamInstance(name, text, delays, elapsed, by_step=True))
    return found
