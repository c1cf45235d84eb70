"""Compare trained models: `python report.py runs=runs/verbfinal`."""

from simulmt.programs.cli import main

if __name__ == "__main__":
    main("report")
