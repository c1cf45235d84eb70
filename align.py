"""Word alignments of a corpus: `python align.py source=FILE target=FILE` or `data=PRESET`."""

from simulmt.programs.cli import main

if __name__ == "__main__":
    main("align")
