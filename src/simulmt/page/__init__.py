"""The files of the pages: served one by one, or all in one file that needs no server.

Scripts are modules that import one another, and nothing else. Text never becomes markup: a page
takes its data from a socket or from JSON, and writes it as text.
"""

import base64
import hashlib
import json
import re
from importlib.resources import files

_LOOKS = ("base.css", "path.css", "live.css", "icon.svg")
_SCRIPTS = ("live.js", "panes.js", "stream.js", "path.js", "record.js", "connection.js")
FILES = {"/": "live.html", **{f"/{name}": name for name in (*_LOOKS, *_SCRIPTS)}}
"""The files that a server gives out, by their paths."""
_IMPORT = re.compile(r'^import .* from "\./([\w.]+)";\n', re.MULTILINE)
_STYLE = re.compile(r'<link rel="stylesheet" href="/([\w.]+)">')
_SCRIPT = re.compile(r'<script type="module" src="/([\w.]+)"></script>')


def content(name: str) -> str:
    """Return the content of a file."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def single_file(name: str, data: object) -> str:
    """Return a page with its styles, scripts and data in it; the same data give the same text.

    Its content security policy names the digests of what is in it: nothing else is run.

    Args:
        name: an HTML file.
        data: plain values for the script.
    """
    parts = dict[str, list[str]](style=[], script=[])

    def inline(tag: str, text: str, attributes: str = "") -> str:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        parts[tag].append(f"'sha256-{digest}'")
        return f"<{tag}{attributes}>{text}</{tag}>"

    page = _STYLE.sub(lambda found: inline("style", content(found[1])), content(name))
    page = _SCRIPT.sub(
        lambda found: inline("script", _bundle(found[1], set()), ' type="module"'), page
    )
    policy = "default-src 'none'; base-uri 'none'; form-action 'none'; " + "; ".join(
        f"{tag}-src {' '.join(digests)}" for tag, digests in parts.items()
    )
    page = page.replace('Policy" content=""', f'Policy" content="{policy}"')
    return page.replace('id="data">', f'id="data">{_embedded(data)}')


def _bundle(name: str, known: set[str]) -> str:
    """Return a module after those that it imports, each once, as one script."""
    known.add(name)
    text = content(name)
    before = [_bundle(other, known) for other in _IMPORT.findall(text) if other not in known]
    return "".join([*before, re.sub(r"^export ", "", _IMPORT.sub("", text), flags=re.MULTILINE)])


def _embedded(data: object) -> str:
    """Return data as JSON that cannot end the element that it stands in."""
    text = json.dumps(data, ensure_ascii=False, sort_keys=True)
    return re.sub("[<>&\u2028\u2029]", lambda found: f"\\u{ord(found[0]):04x}", text)
