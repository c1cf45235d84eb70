"""The papers' analyses of finished runs: `python analyse.py study=NAME runs=RUN_OR_FOLDER`."""

from simulmt.programs.cli import main

if __name__ == "__main__":
    main("analyse")
