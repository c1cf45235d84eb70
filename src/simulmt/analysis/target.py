"""Results as files: CSV files, and web pages.

Pages are made from the HTML templates of this folder; Jinja escapes all text.
"""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from simulmt.run_directory import replacing

REMEDY = "choose another folder: to=DIR"
_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def write_rows(
    rows: Sequence[Mapping[str, object]], path: Path, columns: Sequence[str] = ()
) -> Path:
    """Write rows in full precision and return the path; without rows, `columns` are the heads."""
    with (
        replacing(path) as unfinished,
        unfinished.open("w", encoding="utf-8", newline="") as file,
    ):
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
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", newline="\n")
    return path
