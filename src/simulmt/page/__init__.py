"""The files of the pages: served one by one, or all in one file that needs no server."""

from collections.abc import Mapping
from importlib.resources import files

FILES: Mapping[str, str] = {
    "/": "live.html",
    "/base.css": "base.css",
    "/live.css": "live.css",
    "/path.css": "path.css",
    "/path.js": "path.js",
    "/live.js": "live.js",
    "/connection.js": "connection.js",
    "/panes.js": "panes.js",
    "/icon.svg": "icon.svg",
}
"""The files that the server gives out, by their paths."""


def content(name: str) -> str:
    """Return the content of a file."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
