"""`python -m simulmt VERB ...`."""

from simulmt.cli import main

if __name__ == "__main__":
    main()
