"""Compare trained models: `python report.py runs=runs/verbfinal`."""

from simulmt.cli import main

if __name__ == "__main__":
    main("report")
