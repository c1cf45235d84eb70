"""A checkpoint as an agent of SimulEval 1.1 (Ma et al. 2020, EMNLP demos).

    simuleval --agent-class simulmt.live.simuleval_agent.SimulmtAgent --checkpoint RUN \
        --source source.txt --target reference.txt --output DIR

SimulEval passes one source word at a time and calls `policy` once after each word. The agent then
writes all decided words. So SimulEval's delay of a word is the number of source words that had been
read when the word was known to be complete.
"""

import sys
from argparse import ArgumentParser, Namespace

from simuleval.agents import TextToTextAgent
from simuleval.agents.actions import Action, ReadAction, WriteAction
from simuleval.utils import entrypoint

from simulmt.errors import UserError
from simulmt.live.translator import Translator
from simulmt.parts import load


@entrypoint
class SimulmtAgent(TextToTextAgent):  # type: ignore[misc]  # SimulEval has no types
    """Reads and writes as the checkpoint's mechanism decides.

    A translation that ends before its source is finished only with the source. A line without words
    has an empty translation.
    """

    def __init__(self, args: Namespace, translator: Translator) -> None:
        self.translator = translator
        super().__init__(args)

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        """Add this agent's options to those of SimulEval's command line."""
        where = "run directory, .ckpt file or exported folder"
        parser.add_argument("--checkpoint", required=True, help=where)
        trusted = "packages that bring parts of the model, if they are not installed as plugins"
        parser.add_argument("--plugins", nargs="*", default=[], help=trusted)

    @classmethod
    def from_args(cls, args: Namespace) -> "SimulmtAgent":
        """Load `--checkpoint` on `--device`; exit with status 2 if that is impossible."""
        try:
            if args.fp16 or args.dtype == "fp16":
                raise UserError("half precision is not offered; leave out --fp16 and --dtype fp16")
            load(args.plugins)
            return cls(args, Translator.load(args.checkpoint, device=args.device))
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
        words = self.translator.read(" ".join(states.source[self._taken :]))
        self._taken = len(states.source)
        if states.source_finished and self.translator.words_read:
            words += self.translator.finish()
        if not words and not states.source_finished:
            return ReadAction()
        return WriteAction(" ".join(words), finished=states.source_finished)
