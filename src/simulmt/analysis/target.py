"""Results as files: the folder that takes them, CSV files, and web pages.

Pages are made from the HTML templates of this folder; Jinja escapes all text.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from simulmt.errors import UserError

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@contextmanager
def writing(place: Path, remedy: str = "choose another folder: to=DIR") -> Iterator[None]:
    """Turn the OSError of a file or folder that cannot be written into a UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{place} cannot be written ({error.strerror}); {remedy}") from error


def check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be written or made, before any long work; leaves no trace.

    Raises:
        UserError: the folder, or the nearest existing folder above it, takes no file.
    """
    with writing(folder), TemporaryFile(dir=_nearest(folder)):
        pass


def write_rows(
    rows: Sequence[Mapping[str, object]], path: Path, columns: Sequence[str] = ()
) -> Path:
    """Write rows in full precision and return the path; without rows, `columns` are the heads."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns or list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_html(template: str, path: Path, **values: object) -> Path:
    """Fill in a template, write the page, and return its path; same values give same bytes.

    Args:
        template: The file name of the template.
        path: The path of the page.
        values: The values that the template names.
    """
    text = _TEMPLATES.get_template(template).render(values)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def _nearest(folder: Path) -> Path:
    for place in (folder, *folder.absolute().parents):
        with suppress(FileNotFoundError):
            place.lstat()
            return place
    return folder
