"""Web pages made from the HTML templates of this folder; Jinja escapes all text."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


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
