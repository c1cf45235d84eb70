"""Score a trained model again: `python evaluate.py checkpoint=RUN_OR_FILE split=test`."""

from simulmt.programs.cli import main

if __name__ == "__main__":
    main("evaluate")
