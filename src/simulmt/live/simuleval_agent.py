"""A checkpoint as an agent of SimulEval 1.1 (Ma et al. 2020, EMNLP demos).

    simuleval --agent-class simulmt.live.simuleval_agent.SimulmtAgent --checkpoint RUN \
        --source source.txt --target reference.txt --output DIR

SimulEval hands over a source word at a time and asks once after each what is to be written. It
is given all words decided by then, so a word's delay there is the number of source words that had
been read when the word was known to be complete.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from simuleval.agents import TextToTextAgent
from simuleval.agents.actions import Action, ReadAction, WriteAction
from simuleval.utils import entrypoint

from simulmt.errors import UserError
from simulmt.live.translator import Translator


@entrypoint
class SimulmtAgent(TextToTextAgent):  # type: ignore[misc]  # SimulEval has no types
    """Reads and writes as the checkpoint's mechanism has it.

    A translation that ends early is finished with the source all the same: there is nothing to
    write in between. A line without a word has none in its translation, too.
    """

    def __init__(self, args: Namespace, translator: Translator) -> None:
        self.translator = translator
        super().__init__(args)

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        """What SimulEval's command line takes besides its own options."""
        where = "run directory, .ckpt file or exported folder"
        parser.add_argument("--checkpoint", required=True, help=where)

    @classmethod
    def from_args(cls, args: Namespace) -> SimulmtAgent:
        """Load `--checkpoint` on `--device`; exits with 2 where that cannot be done."""
        try:
            if args.fp16 or args.dtype == "fp16":
                raise UserError("half precision is not offered; leave out --fp16 and --dtype fp16")
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
        """Take in the words that are new; write those decided upon them."""
        states, words = self.states, list[str]()
        for word in states.source[self._taken :]:
            words += self.translator.read(word)
        self._taken = len(states.source)
        if states.source_finished and self.translator.words_read:
            words += self.translator.finish()
        if not words and not states.source_finished:
            return ReadAction()
        return WriteAction(" ".join(words), finished=states.source_finished)
