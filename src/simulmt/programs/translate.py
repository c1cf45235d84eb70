"""`translate.py`: translate words or lines while they arrive, or a file at once."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Literal

from omegaconf import DictConfig
from rich.console import Console

from simulmt.data.text import normalise, text_lines
from simulmt.decoding.cuts import STREAM, check_cut
from simulmt.errors import UserError
from simulmt.live import cascade, interpreter
from simulmt.live.lines import LineTranslator
from simulmt.live.stream import StreamTranslator, interpret_stream
from simulmt.live.translator import LONGEST, Translator
from simulmt.models.eight_bit import Precision
from simulmt.options import Config, Count, Tokens, construct
from simulmt.parts.builders import build_policy, other_policy, pick_device
from simulmt.programs.line_job import LineJob
from simulmt.programs.lines import line_search
from simulmt.programs.plain import Dials, plain
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained
from simulmt.system.console import note, say, watch
from simulmt.system.ending import CONTINUES, handle_signals
from simulmt.system.memory import enough_memory

PICTURED = 20
"""The most sentences that a picture shows."""


@dataclass(frozen=True)
class TranslateOptions:
    """The options of `conf/translate.yaml`, which explains each of them."""

    checkpoint: Path
    input: Path | None
    output: Path | None
    beam: Count | None
    sentences: Literal["lines", "model"]
    cut: Literal["pointer", "likelihood", "reading"]
    format: Literal["text", "jsonl"]
    computation_aware: bool
    actions: bool
    picture: Path | None
    heads: str
    unit: Literal["word", "subword"]
    policy: Config
    dial: Dials
    device: str
    weights: Precision
    batch_tokens: Tokens
    block: Count

    def __post_init__(self) -> None:
        live, jsonl = self.input is None or self.actions, self.format == "jsonl"
        if jsonl and self.actions:
            raise UserError("actions=true with format=jsonl: both set what is printed; choose one")
        if live and (given := _given(output=self.output, beam=self.beam)):
            raise UserError(
                f"{given} needs input=FILE, without actions=true: a stream is decoded greedily and "
                f"printed as it arrives; add input=FILE, or leave out {given}"
            )
        stream = f"format={self.format}" if jsonl else f"sentences={self.sentences}"
        given = _given(input=self.input, picture=self.picture)
        if stream != "sentences=lines" and given:
            raise UserError(
                f"{given} with {stream}, which reads standard input and draws nothing: leave out "
                f"{given}; `< FILE` reads a file, and simulmt evaluate decodes documents in batches"
            )
        check_cut(self.cut, self.sentences)
        if self.computation_aware and not jsonl:
            raise UserError("computation_aware=true with format=text: add format=jsonl")
        if self.picture is not None:
            from simulmt.analysis.figures.heads import check_picture  # noqa: PLC0415  (see draw)

            check_picture(str(self.picture), self.heads)
            policy = other_policy(self.policy).get("name")
            if policy or (self.beam or 1) > 1:
                given = f"policy={policy}" if policy else f"beam={self.beam}"
                raise UserError(
                    f"picture={self.picture} with {given}: a picture shows the model's own "
                    "decisions, greedily; leave out one of the two"
                )


def _given(**options: object) -> str:
    return " and ".join(f"{name}={value}" for name, value in options.items() if value)


def translate(cfg: DictConfig) -> None:
    """Translate standard input while it comes in, or a file in batches.

    Raises:
        UserError: a mistake that a user can correct.
    """
    options = construct(TranslateOptions, plain(cfg), "")
    device = pick_device(options.device, options.weights)
    with enough_memory("batch_tokens", device.type):
        _translate(options)


def _translate(options: TranslateOptions) -> None:
    """Translate, and draw what was asked for."""
    sentences = dict[int, str]()
    trained = replace(checkpoint.load(options.checkpoint), precision=options.weights)
    policy = build_policy(options.policy)
    translator = Translator.of(trained, options.device, policy, options.dial)
    try:
        if options.input and not options.actions:
            lines = [*text_lines(options.input)]
            translate_lines(trained, translator, lines, options)
            sentences |= {number: line for number, line in enumerate(lines, 1) if line}
        else:
            live(translator, options, sentences)
    finally:
        if options.picture is not None and sentences:  # after Ctrl-C, those so far
            draw(translator, sentences, options)


def translate_lines(
    trained: Trained, translator: Translator, lines: Sequence[str], options: TranslateOptions
) -> None:
    """Translate in batches, as `train.py` translated the test set, to standard output or a file.

    The translation of a blank line is blank.

    Raises:
        UserError: a line is too long, or another command wrote the output.
    """
    model, subwords, policy = translator.model, translator.subwords, translator.policy
    search = line_search(trained, model, policy, options.beam)
    lengths = subwords.encode_rows(lines).lengths - 1  # without EOS
    if (longest := max(lengths, default=0)) > LONGEST:
        raise UserError(
            f"line {lengths.argmax() + 1} of input has {longest:,} subwords, but a sentence may "
            f"have at most {LONGEST:,}: split the line"
        )
    tokens, output, block = options.batch_tokens, options.output, options.block
    bar = iter if output else partial(watch, what="translating", on=Console(stderr=True))
    translate = LineTranslator(model, subwords, search, tokens, LONGEST + 1, policy, watch=bar)
    if output is None:
        for first in range(0, len(lines), block):
            print(*translate(lines[first : first + block]), sep="\n", flush=True)
        return
    decisions = {
        "model": trained.digest,
        "input": sha256("\n".join(lines).encode()).hexdigest(),
        "policy": options.policy,
        "dial": options.dial,
        **({"weights": options.weights} if options.weights != "float32" else {}),
        **asdict(search),
        "batch_tokens": tokens,
        "block": block,
    }
    place = output.absolute()  # "." has no name
    record, unfinished = (place.with_name(place.name + end) for end in (".json", ".unfinished"))
    handle_signals(lambda: CONTINUES)
    job = LineJob(place, record, unfinished, decisions, lines, block)
    if not (finished := job.begin(taken=output.exists())):
        job.translate(translate)
    job.publish({place: job.translations()}, {})
    say(f"{output}: {len(lines):,} lines {'are already ' if finished else ''}translated")


def live(translator: Translator, options: TranslateOptions, sentences: dict[int, str]) -> None:
    """Translate words or lines as they arrive; at a terminal, show both sides.

    Args:
        translator: reads the words.
        options: say what arrives and what is printed.
        sentences: receives the first sentences, by line number; none of a stream.
    """
    file, actions, stream = options.input, options.actions, None
    writing = translator.subwords.writing
    if options.sentences == STREAM:
        stream = StreamTranslator.of(translator, options.cut)
    if options.format == "jsonl":
        stage = cascade.Cascade(stream or translator, note, options.computation_aware)
        with open(sys.stdin.fileno(), "rb", closefd=False) as lines:
            cascade.translate_lines(stage, lines, sys.stdout, note)
        return

    def events(text: Iterable[str]) -> Iterator[interpreter.Event]:
        if stream:
            return interpret_stream(stream, interpreter.words_of(text, writing.source))
        words = remember(interpreter.words_of(text, writing.source), sentences)
        return interpreter.interpret(translator, words, note)

    at_terminal = file is None and os.isatty(sys.stdin.fileno()) and sys.stdout.isatty()
    if at_terminal and not actions and sys.platform != "win32":
        from simulmt.live.keyboard import Screen, typed  # noqa: PLC0415  (imports what Windows lacks)

        with (
            closing(Screen(Console(highlight=False), writing)) as screen,
            closing(typed(sys.stdin.fileno(), screen.typing, writing.source)) as keys,
        ):
            for event in events(keys):
                screen.show(event)
        return
    if file is None:
        text = interpreter.arriving(sys.stdin.fileno())
    else:
        text = (f"{line}\n" for line in text_lines(file))
    if actions:
        interpreter.print_events(events(text), sys.stdout)
    else:
        interpreter.print_translation(events(text), sys.stdout, writing.target)


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


def draw(translator: Translator, sentences: Mapping[int, str], options: TranslateOptions) -> None:
    """Write the picture of the first of `sentences`, given by line number."""
    # seconds to import, and rarely used
    from simulmt.analysis.figures.heads import write_picture  # noqa: PLC0415
    from simulmt.analysis.figures.trace import trace_sentence  # noqa: PLC0415

    model, subwords, device = translator.model, translator.subwords, translator.device
    first = [*sentences.items()][:PICTURED]
    traces = [trace_sentence(model, subwords, device, text, line) for line, text in first]
    if options.unit == "word":
        traces = [trace.in_words() for trace in traces]
    write_picture(traces, str(options.picture), options.heads)
    more = f", the first {PICTURED} sentences" if len(sentences) > PICTURED else ""
    note(f"picture: {options.picture}{more}")
