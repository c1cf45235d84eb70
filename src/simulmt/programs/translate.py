"""`translate.py`: translate words while they arrive, or a file at once."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from omegaconf import DictConfig
from rich.console import Console

from simulmt.builders import build_policy, build_search, other_policy
from simulmt.console import watch
from simulmt.data.corpus import Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.text import normalise, text_lines
from simulmt.decoding.search import GREEDY, Search
from simulmt.decoding.split_decoder import SplitDecoder
from simulmt.errors import UserError
from simulmt.live import interpreter
from simulmt.live.translator import LONGEST, Translator
from simulmt.memory import enough_memory
from simulmt.options import Tokens, construct
from simulmt.programs.plain import plain, turned
from simulmt.saved import checkpoint

PICTURED = 20
"""The most sentences that a picture shows."""


@dataclass(frozen=True)
class Options:
    """The options of `conf/translate.yaml`, which explains each of them."""

    checkpoint: Path
    input: Path | None
    actions: bool
    picture: Path | None
    heads: str
    unit: Literal["word", "subword"]
    policy: dict[str, Any]
    dial: dict[str, Any]
    device: str
    batch_tokens: Tokens
    plugins: list[str]

    def __post_init__(self) -> None:
        if self.picture is not None:
            from simulmt.analysis.picture import check_picture  # noqa: PLC0415  (see draw)

            check_picture(str(self.picture), self.heads)
            if other_policy(self.policy):
                raise UserError(
                    f"picture={self.picture} with policy={self.policy.get('name')}: a picture "
                    "shows the model's own decision; leave out one of them"
                )


@enough_memory("batch_tokens")
def translate(cfg: DictConfig) -> None:
    """Translate standard input while it comes in, or a file in batches.

    Raises:
        UserError: anything a user can put right.
    """
    options = construct(Options, plain(cfg), "")
    if options.input and not options.input.is_file():
        raise UserError(f"input={options.input}: there is no such file")
    trained = checkpoint.load(options.checkpoint)
    policy, sentences = build_policy(options.policy), dict[int, str]()
    translator = Translator.of(trained, options.device, policy, turned(options.dial))
    try:
        if options.input and not options.actions:
            lines = [*text_lines(options.input, errors="replace")]
            search = (
                GREEDY if policy else build_search(trained.config["decoding"], translator.model)
            )
            for line in translate_lines(translator, search, lines, options.batch_tokens):
                print(line)
            sentences |= {number: line for number, line in enumerate(lines, 1) if line}
        else:
            live(translator, options.input, options.actions, sentences)
    finally:
        if options.picture is not None and sentences:  # after Ctrl-C, those until then
            draw(translator, sentences, options)


def live(
    translator: Translator, file: Path | None, actions: bool, sentences: dict[int, str]
) -> None:
    """Translate words as they arrive; at a terminal, show both sides.

    Args:
        translator: reads the words.
        file: the source; None for standard input.
        actions: whether to print events instead of the translation.
        sentences: receives the first sentences, by the numbers of their lines.
    """
    if file is None and not actions and _at_terminal():
        from simulmt.live.keyboard import Screen, typed  # noqa: PLC0415  (imports what Windows lacks)

        with (
            closing(Screen(Console(highlight=False))) as screen,
            closing(typed(sys.stdin.fileno(), screen.typing)) as keys,
        ):
            words = remember(interpreter.words_of(keys), sentences)
            for event in interpreter.interpret(translator, words, warn):
                screen.show(event)
        return
    if file is None:
        text = interpreter.arriving(sys.stdin.fileno())
    else:
        text = (f"{line}\n" for line in text_lines(file, errors="replace"))
    words = remember(interpreter.words_of(text), sentences)
    events = interpreter.interpret(translator, words, warn)
    show = interpreter.print_events if actions else interpreter.print_translation
    show(events, sys.stdout)


def remember(words: Iterable[str], sentences: dict[int, str]) -> Iterator[str]:
    """Yield the words; store the first sentences, up to one more than a picture shows."""
    sentence, line = list[str](), 1
    for word in words:
        if word == interpreter.END:
            if text := normalise(" ".join(sentence)):
                sentences[line] = text
            sentence, line = [], line + 1
        elif len(sentences) <= PICTURED:
            sentence.append(word)
        yield word


def draw(translator: Translator, sentences: Mapping[int, str], options: Options) -> None:
    """Write the picture of the first of `sentences`, which have the numbers of their lines."""
    from simulmt.analysis.picture import write_picture  # noqa: PLC0415  (takes a while to import,
    from simulmt.decoding.trace import trace_sentence  # noqa: PLC0415   and mostly for nothing)

    model, subwords, device = translator.model, translator.subwords, translator.device
    first = [*sentences.items()][:PICTURED]
    traces = [trace_sentence(model, subwords, device, text, line) for line, text in first]
    if options.unit == "word":
        traces = [trace.in_words() for trace in traces]
    write_picture(traces, str(options.picture), options.heads)
    more = f", the first {PICTURED} sentences" if len(sentences) > PICTURED else ""
    print(f"picture: {options.picture}{more}", file=sys.stderr)


def translate_lines(
    translator: Translator, search: Search, lines: Sequence[str], batch_tokens: int
) -> list[str]:
    """Translate in batches, as `train.py` translated the test set.

    Args:
        translator: holds the model.
        search: greedy or beam search; the translator's policy decodes greedily.
        lines: one sentence each, normalised.
        batch_tokens: token budget of a batch.

    Returns:
        A translation for each line, empty for a blank one.

    Raises:
        UserError: a line is too long.
    """
    translations = ["" for _ in lines]
    numbers = [number for number, line in enumerate(lines) if line]
    if not numbers:
        return translations
    split = Split([lines[number] for number in numbers], ["" for _ in numbers])
    encoded = EncodedSplit.encode(split, translator.subwords)
    lengths = encoded.lengths[:, 0] - 1  # without EOS
    longest = int(lengths.argmax())
    if lengths[longest] > LONGEST:
        raise UserError(
            f"line {numbers[longest] + 1} has {lengths[longest]:,} subwords, a sentence "
            f"{LONGEST:,} at the most: split it"
        )
    decoder = SplitDecoder(
        split, encoded, translator.subwords, batch_tokens, search, translator.policy
    )
    progress = partial(watch, what="translating", on=Console(stderr=True))
    for instance in decoder(translator.model, translator.device, progress):
        translations[numbers[instance.index]] = instance.prediction
    return translations


def warn(message: str) -> None:
    """Print a warning."""
    print(f"warning: {message}", file=sys.stderr)


def _at_terminal() -> bool:
    """Return whether a person types and sees what is printed."""
    return sys.platform != "win32" and os.isatty(sys.stdin.fileno()) and sys.stdout.isatty()


if __name__ == "__main__":
    from simulmt.cli import main

    main("translate")
