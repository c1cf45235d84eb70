"""The command `simulmt VERB ...`, and `python train.py ...` and its neighbours in a clone."""

import sys

from simulmt import __version__, ending

VERBS = {
    "train": "train and test a model",
    "evaluate": "score a trained model again, on any text or at another setting of its dial",
    "translate": "translate what is typed or piped in, while it comes",
    "report": "compare trained models",
    "analyse": "make a figure of the papers from trained models",
    "align": "align the words of sentence pairs",
    "export": "write a trained model as a folder to give away",
}


def main(verb: str | None = None) -> None:
    """Run a verb with the arguments of the command line.

    Args:
        verb: the verb that a script stands for; None to take the first argument.

    Raises:
        SystemExit: with 2 on bad input, with 130 after Ctrl-C.
    """
    words = sys.argv[1:]
    if verb is None:
        verb, *words = words or ["--help"]
    if verb in {"-h", "--help"}:
        print("usage")
    elif verb in {"-V", "--version"}:
        print(f"simulmt {__version__}")
    elif verb in VERBS:
        if verb == "train":
            ending.begin()  # at once: the other imports may take a minute
        from simulmt.programs import command, verbs  # noqa: PLC0415

        command.run(getattr(verbs, verb), verb, words)
    else:
        print(f"error: {verb!r} is no verb; choose one of {', '.join(VERBS)}", file=sys.stderr)
        sys.exit(2)
