"""Translate what is typed or piped in, while it comes: `python translate.py checkpoint=RUN`."""

from simulmt.programs.cli import main

if __name__ == "__main__":
    main("translate")
