"""Write a trained model as a folder to give away: `python export.py checkpoint=RUN to=FOLDER`."""

from simulmt.programs.cli import main

if __name__ == "__main__":
    main("export")
