"""`translate.py`: translate what arrives, while it arrives, or a file at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from rich.console import Console
from rich.progress import track

from simulmt.builders import build_search
from simulmt.data.batches import OrderedBatches
from simulmt.data.corpus import Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.text import normalise, text_lines
from simulmt.decoding.corpus import decode_split
from simulmt.errors import UserError
from simulmt.live.interpreter import END, Actions, Plain, Told, arriving, interpret, parts_of
from simulmt.live.translator import LONGEST, Translator
from simulmt.options import construct
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
    translator, sentences = Translator.of(trained, options.device), dict[int, str]()
    if given and not options.actions:
        lines = [*text_lines(given, errors="replace")]
        for line in translate_lines(translator, trained.config, lines, options.batch_tokens):
            print(line)
        if options.picture is not None:
            sentences = {number: line for number, line in enumerate(lines, 1) if line}
            draw(translator, sentences, options)
        return
    try:
        live(translator, given, options.actions, sentences)
    finally:
        if options.picture is not None and sentences:  # of what there was before Ctrl-C, too
            draw(translator, sentences, options)


def live(
    translator: Translator, given: Path | None, actions: bool, sentences: dict[int, str]
) -> None:
    """Translate what arrives; a person at a terminal is shown both sides.

    Args:
        translator: takes the words in.
        given: a file; None for standard input.
        actions: whether to print events instead of the translation.
        sentences: the first ones are added to it, each by the number of its line.
    """
    if given is None and not actions and _at_terminal():
        from simulmt.live.keyboard import Screen, typed  # noqa: PLC0415  (imports what Windows lacks)

        with Screen() as screen:
            parts = remember(typed(sys.stdin.fileno(), screen.typing), sentences)
            interpret(translator, parts, screen, warn)
        return
    told: Told = Actions(sys.stdout) if actions else Plain(sys.stdout)
    if given is None:
        parts = arriving(sys.stdin.fileno())
    else:
        parts = parts_of(text_lines(given, errors="replace"))
    interpret(translator, remember(parts, sentences), told, warn)


def remember(parts: Iterable[str], sentences: dict[int, str]) -> Iterator[str]:
    """Hand the parts on and keep the first sentences: one more than are pictured, if there is."""
    words, line = list[str](), 1
    for part in parts:
        if part == END:
            if sentence := normalise(" ".join(words)):
                sentences[line] = sentence
            words, line = [], line + 1
        elif len(sentences) <= PICTURED:
            words.append(part)
        yield part


def draw(translator: Translator, sentences: Mapping[int, str], options: Options) -> None:
    """Write the picture of the first sentences, which are given by the numbers of their lines."""
    from simulmt.analysis.picture import write_picture  # noqa: PLC0415  (takes a while to import,
    from simulmt.decoding.trace import trace_sentence  # noqa: PLC0415   and mostly for nothing)

    model, subwords, device = translator.model, translator.subwords, translator.device
    first = [*sentences.items()][:PICTURED]
    traces = [trace_sentence(model, subwords, device, text, line) for line, text in first]
    write_picture(traces, str(options.picture), options.heads)
    more = f", the first {PICTURED} sentences" if len(sentences) > PICTURED else ""
    print(f"picture: {options.picture}{more}", file=sys.stderr)


def translate_lines(
    translator: Translator, config: Mapping[str, Any], lines: Sequence[str], batch_tokens: int
) -> list[str]:
    """Translate in batches, as `train.py` translated the test set.

    Args:
        translator: has the model.
        config: of its training.
        lines: a sentence each, normalised.
        batch_tokens: token budget of a batch.

    Returns:
        A translation for each line, empty for a blank one.

    Raises:
        UserError: a line that is too long.
    """
    translations = ["" for _ in lines]
    filled = [number for number, line in enumerate(lines) if line]
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
    search = build_search(config["decoding"], model)
    chosen = [*OrderedBatches(lengths, max(1, batch_tokens // search.beam))]
    console = Console(stderr=True)
    shown = track(chosen, "translating", console=console, disable=not console.is_terminal)
    batches = (encoded.batch(rows) for rows in shown)
    for instance in decode_split(model, subwords, split, batches, device, search):
        translations[filled[instance.index]] = instance.prediction
    return translations


def warn(message: str) -> None:
    """Say something that does not end the program."""
    print(f"warning: {message}", file=sys.stderr)


def _at_terminal() -> bool:
    """Whether a person types and sees what is printed."""
    return sys.platform != "win32" and os.isatty(sys.stdin.fileno()) and sys.stdout.isatty()
