"""A hub of data sets on this machine: as much of Hugging Face's as huggingface_hub asks for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote


@dataclass
class Hub:
    """Data sets by name and revision: a commit, a folder, and the card."""

    revisions: dict[tuple[str, str], tuple[str, Path, dict]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def add(self, name: str, revision: str, folder: Path, card: dict | None = None) -> str:
        content = b"".join(path.read_bytes() for path in sorted(folder.rglob("*.parquet")))
        commit = hashlib.sha1(content).hexdigest()
        for place in (revision, commit):
            self.revisions[name, place] = (commit, folder, card or {})
        return commit

    def info(self, name: str, revision: str) -> dict:
        commit, folder, card = self.revisions[name, revision]
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        siblings = [
            {
                "rfilename": path.relative_to(folder).as_posix(),
                "size": path.stat().st_size,
                "blobId": commit,
                "lfs": {"sha256": digest(path), "size": path.stat().st_size, "pointerSize": 9},
            }
            for path in files
        ]
        return {"id": name, "sha": commit, "siblings": siblings, "cardData": card}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def serving() -> Iterator[Hub]:
    hub = Hub()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(body=True)

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def answer(self, body: bool) -> None:
            hub.asked.append(f"{self.command} {self.path}")
            parts = self.path.partition("?")[0].strip("/").split("/")
            headers, content = {}, b"{}"
            try:
                if parts[0] == "api":  # api/datasets/OWNER/NAME/revision/REVISION
                    name, revision = "/".join(parts[2:4]), unquote(parts[5])
                    content = json.dumps(hub.info(name, revision)).encode()
                else:  # datasets/OWNER/NAME/resolve/REVISION/PATH
                    name, revision = "/".join(parts[1:3]), unquote(parts[4])
                    commit, folder, _ = hub.revisions[name, revision]
                    path = folder / "/".join(map(unquote, parts[5:]))
                    content = path.read_bytes()
                    headers = {"ETag": f'"{digest(path)}"', "X-Repo-Commit": commit}
                self.send_response(200)
            except (KeyError, IndexError):
                known = any(own == name for own, _ in hub.revisions)
                headers = {"X-Error-Code": "RevisionNotFound" if known else "RepoNotFound"}
                self.send_response(404)
            for key, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(key, value)
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
