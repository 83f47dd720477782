"""A server on this machine that answers as the hub does, as far as reading a model repository goes."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

SHA = "0123456789abcdef0123456789abcdef01234567"
REVISIONS = ("main", "v1", SHA)


@dataclass
class FakeHub:
    """Repositories by name, and what was asked of them."""

    repositories: dict[str, Path]
    gated: frozenset[str] = frozenset()
    whole_files: bool = False
    """Whether a piece of a file is answered with all of it."""
    broken: bool = False
    asked: list[str] = field(default_factory=list)
    sent: int = 0
    """Bytes of files that were sent."""
    url: str = ""


@contextmanager
def serving(hub: FakeHub) -> Iterator[FakeHub]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            self._answer()

        def _answer(self, *, body: bool = True) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.asked.append(f"{self.command} {path} {self.headers.get('Range', '')}".strip())
            if hub.broken:
                return self._error(503, "ServiceUnavailable")
            api = re.fullmatch(
                r"/api/models/([^/]+/[^/]+)(?:/(revision|tree|paths-info)/([^/]+))?(?:/.*)?", path
            )
            file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
            match = api or file
            if match is None or match[1] not in hub.repositories:
                return self._error(401, "RepoNotFound", "Repository not found")
            if match[1] in hub.gated:
                return self._error(403, "GatedRepo", "Access to this repository is restricted")
            revision = (api[3] if api else match[2]) or "main"
            if revision not in REVISIONS:
                return self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            folder = hub.repositories[match[1]]
            if file:
                return self._file(folder / file[3], body=body)
            entries = [
                {"type": "file", "path": entry.name, "size": entry.stat().st_size, "oid": SHA}
                for entry in sorted(folder.iterdir())
            ]
            if api and api[2] in ("tree", "paths-info"):
                return self._json(entries)
            siblings = [{"rfilename": entry["path"]} for entry in entries]
            return self._json(
                {"id": match[1], "modelId": match[1], "sha": SHA, "siblings": siblings, "tags": []}
            )

        def _file(self, file: Path, *, body: bool) -> None:
            if not file.is_file():
                return self._error(404, "EntryNotFound")
            size = file.stat().st_size
            asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
            start, end = 0, size - 1
            if asked and not hub.whole_files:
                start, end = int(asked[1]), min(int(asked[2] or size - 1), size - 1)
            self.send_response(206 if asked and not hub.whole_files else 200)
            self.send_header("Content-Length", str(end - start + 1))
            self.send_header("Content-Range", f"bytes {start}-{end}/{size}")
            self.send_header("ETag", '"0"')
            self.send_header("X-Repo-Commit", SHA)
            self.end_headers()
            if body:
                with file.open("rb") as stream:
                    stream.seek(start)
                    self.wfile.write(stream.read(end - start + 1))
                hub.sent += end - start + 1
            return None

        def _json(self, data: object) -> None:
            content = json.dumps(data).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _error(self, status: int, code: str, message: str = "") -> None:
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", message)
            self.send_header("Content-Length", "0")
            self.end_headers()

    return Handler
