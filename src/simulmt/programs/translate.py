"""`translate.py`: translate what arrives, while it arrives, or a file at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from rich.console import Console
from rich.progress import track

from simulmt.data.batches import EncodedSplit, OrderedBatches, collate_pairs
from simulmt.data.corpus import Split
from simulmt.decoding.corpus import decode_split
from simulmt.errors import UserError
from simulmt.live.interpreter import END, Actions, Plain, Told, arriving, interpret
from simulmt.live.translator import LONGEST, Translator
from simulmt.options import construct
from simulmt.parts import build_mechanism, build_search
from simulmt.programs.plain import plain
from simulmt.saved import checkpoint

PICTURED = 20
"""The most sentences that go into a picture: the first ones."""


@dataclass(frozen=True)
class Options:
    """`conf/translate.yaml` says what each entry means."""

    checkpoint: Any
    input: Any
    actions: bool
    picture: Any
    heads: str
    device: str
    batch_tokens: int

    def __post_init__(self) -> None:
        if self.batch_tokens < 1:
            raise UserError(f"batch_tokens is {self.batch_tokens}; it must be at least 1")
        if self.picture is not None:
            from simulmt.analysis.picture import check_picture  # noqa: PLC0415  (see draw)

            check_picture(str(self.picture), self.heads)


def translate(cfg: DictConfig) -> None:
    """Translate standard input while it comes in, or a file in batches.

    Raises:
        UserError: anything a user can put right.
    """
    options = construct(Options, plain(cfg), "translate.py")
    given = None if options.input is None else Path(str(options.input))
    if given and not given.is_file():
        raise UserError(f"input={given}: there is no such file")
    trained = checkpoint.load(Path(str(options.checkpoint)))
    translator, sentences = Translator.of(trained, options.device), list[str]()
    if given and not options.actions:
        lines = read_lines(given)
        for line in translate_lines(translator, trained.config, lines, options.batch_tokens):
            print(line)
        sentences = [line for line in lines if line.strip()]
        if options.picture is not None:
            draw(translator, sentences, options)
        return
    try:
        with _opened(given) as descriptor:
            live(translator, descriptor, options.actions, sentences)
    finally:
        if options.picture is not None and sentences:  # of what there was before Ctrl-C, too
            draw(translator, sentences, options)


def live(translator: Translator, descriptor: int, actions: bool, sentences: list[str]) -> None:
    """Translate what arrives on a descriptor; a person at a terminal is shown both sides.

    Args:
        translator: takes the words in.
        descriptor: of a file, a pipe or a terminal.
        actions: whether to print events instead of the translation.
        sentences: the first ones are added to it.
    """
    at_terminal = os.isatty(descriptor) and sys.stdout.isatty() and sys.platform != "win32"
    if at_terminal and not actions:
        from simulmt.live.keyboard import Screen, typed  # noqa: PLC0415  (imports what Windows lacks)

        with Screen() as screen:
            parts = remember(typed(descriptor, screen.typing), sentences)
            interpret(translator, parts, screen, warn)
        return
    told: Told = Actions(sys.stdout) if actions else Plain(sys.stdout)
    interpret(translator, remember(arriving(descriptor), sentences), told, warn)


def remember(parts: Iterable[str], sentences: list[str]) -> Iterator[str]:
    """Hand the parts on and keep the first sentences."""
    words: list[str] = []
    for part in parts:
        if part != END and len(sentences) < PICTURED:
            words.append(part)
        elif words:
            sentences.append(" ".join(words))
            words = []
        yield part


def draw(translator: Translator, sentences: Sequence[str], options: Options) -> None:
    """Write the picture of the first sentences."""
    from simulmt.analysis.picture import write_picture  # noqa: PLC0415  (takes a while to import,
    from simulmt.decoding.trace import trace_sentence  # noqa: PLC0415   and mostly for nothing)

    model, subwords, device = translator.model, translator.subwords, translator.device
    first = sentences[:PICTURED]
    traces = [trace_sentence(model, subwords, device, sentence) for sentence in first]
    write_picture(traces, str(options.picture), options.heads)
    more = f", the first {PICTURED} sentences" if len(sentences) > PICTURED else ""
    print(f"picture: {options.picture}{more}", file=sys.stderr)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file; bytes that are no UTF-8 become the replacement character."""
    try:
        text = path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"input={path}: cannot be read ({error.strerror})") from None
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def translate_lines(
    translator: Translator, config: Mapping[str, Any], lines: Sequence[str], batch_tokens: int
) -> list[str]:
    """Translate in batches, as `train.py` translated the test set.

    Args:
        translator: has the model.
        config: of its training.
        lines: a sentence each.
        batch_tokens: token budget of a batch.

    Returns:
        A translation for each line, empty for a blank one.

    Raises:
        UserError: a line that is too long.
    """
    translations = ["" for _ in lines]
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if not filled:
        return translations
    split = Split([lines[number] for number in filled], ["" for _ in filled])
    model, subwords, device = translator.model, translator.subwords, translator.device
    encoded = EncodedSplit.encode(split, subwords)
    lengths = encoded.lengths
    longest = int(lengths[:, 0].argmax())
    if lengths[longest, 0] > LONGEST + 1:
        raise UserError(
            f"line {filled[longest] + 1} has {lengths[longest, 0] - 1:,} subwords, a sentence "
            f"{LONGEST:,} at the most: split it"
        )
    search = build_search(config["decoding"], build_mechanism(config), model.usual_beam)
    chosen = [*OrderedBatches(lengths, max(1, batch_tokens // search.beam))]
    console = Console(stderr=True)
    shown = track(chosen, "translating", console=console, disable=not console.is_terminal)
    batches = (collate_pairs([encoded[row] for row in rows]) for rows in shown)
    for instance in decode_split(model, subwords, split, batches, device, search):
        translations[filled[instance.index]] = instance.prediction
    return translations


def warn(message: str) -> None:
    """Say something that does not end the program."""
    print(f"warning: {message}", file=sys.stderr)


@contextmanager
def _opened(path: Path | None) -> Iterator[int]:
    if path is None:
        yield sys.stdin.fileno()
        return
    with path.open("rb") as file:
        yield file.fileno()
