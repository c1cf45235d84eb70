"""`python -m simulmt VERB ...`."""

from simulmt.programs.cli import main

if __name__ == "__main__":
    main()
