"""A checkpoint as an agent of SimulEval 1.1 (Ma et al. 2020, EMNLP demos).

    simuleval --agent-class simulmt.live.simuleval_agent.SimulmtAgent --checkpoint RUN \
        --source source.txt --target reference.txt --output DIR

SimulEval passes one source word at a time and calls `policy` once after each word. The agent then
writes all decided words. So SimulEval's delay of a word is the number of source words that had been
read when the word was known to be complete. If characters are words, SimulEval needs spaces between
those of the source, and `--eval-latency-unit char` for the target.
"""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simuleval.agents import TextToTextAgent
from simuleval.agents.actions import Action, ReadAction, WriteAction
from simuleval.utils import entrypoint

from simulmt.decoding.cuts import CUTS
from simulmt.decoding.policies import OWN
from simulmt.decoding.writing import as_written
from simulmt.errors import UserError
from simulmt.live.stream import StreamTranslator
from simulmt.live.translator import Translator
from simulmt.parts import load
from simulmt.parts.builders import build_policy
from simulmt.saved import checkpoint


@entrypoint
class SimulmtAgent(TextToTextAgent):  # type: ignore[misc]  # SimulEval has no types
    """Reads and writes as the checkpoint's mechanism decides.

    If a translation ends early, the agent still reports it as finished only when the source ends. A
    line without words has an empty translation. With `--sentences model` a line is a document.
    """

    def __init__(self, args: Namespace, translator: Translator | StreamTranslator) -> None:
        self.translator = translator
        super().__init__(args)

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        """Add this agent's options to those of SimulEval's command line."""
        add = parser.add_argument
        add("--checkpoint", required=True, help="run directory, .ckpt file or exported folder")
        policy = "a policy and all its options, as in local_agreement n=2; else the model's own"
        add("--policy", nargs="+", default=[OWN], metavar="NAME", help=policy)
        dial = "dials of the model and their values, such as k=5"
        add("--dial", nargs="+", default=[], metavar="NAME=VALUE", help=dial)
        kinds = "lines: a line is a sentence; model: a stream, whose sentences the model ends"
        add("--sentences", choices=["lines", "model"], default="lines", help=kinds)
        add("--cut", choices=CUTS, default="pointer", help="where a sentence of a stream ends")
        trusted = "packages that bring parts of the model, if they are not installed as plugins"
        add("--plugins", nargs="*", default=[], help=trusted)

    @classmethod
    def from_args(cls, args: Namespace) -> "SimulmtAgent":
        """Load `--checkpoint` on `--device`; exit with status 2 if that is impossible."""
        try:
            if args.fp16 or args.dtype == "fp16":
                raise UserError("half precision is not offered; leave out --fp16 and --dtype fp16")
            load(args.plugins)
            name, *chosen = args.policy
            policy = build_policy({"name": name, **_options(chosen)})
            if policy is not None and policy.revises:
                raise UserError(
                    f"--policy {name} takes words back, which SimulEval cannot show: "
                    "evaluate with simulmt"
                )
            trained = checkpoint.load(Path(args.checkpoint))
            translator = Translator.of(trained, args.device, policy, _options(args.dial))
            if args.sentences == "lines":
                return cls(args, translator)
            return cls(args, StreamTranslator.of(translator, args.cut))
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)

    def reset(self) -> None:
        """Begin another sentence."""
        super().reset()
        self.translator.reset()
        self._taken = 0

    def policy(self) -> Action:
        """Read the new source words, and write the words that they decide."""
        states = self.states
        new: list[str | None] = states.source[self._taken :]
        self._taken = len(states.source)
        end = [None] if states.source_finished and self._taken else []
        words = [word for read in [*new, *end] for word in self.translator.read(read)]
        if not words and not states.source_finished:
            return ReadAction()
        text = as_written(words, self.translator.subwords.writing.target)
        return WriteAction(text, finished=states.source_finished)


def _options(words: Sequence[str]) -> dict[str, Any]:
    """The options of a policy, or dials, from words such as `n=2`."""
    pairs = (word.partition("=") for word in words)
    return {key: _value(text) for key, _, text in pairs}


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
