"""A small server on this machine that answers as Hugging Face's hub does, for tests."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
"""Of the main branch."""
BRANCH_COMMIT = "f" * 40
"""Of the branch named `branch`, and of a main branch that has moved."""


@dataclass
class Repository:
    """Files by name; `wrong_hashes` names those whose hash is told wrongly."""

    files: dict[str, bytes]
    is_gated: bool = False
    wrong_hashes: set[str] = field(default_factory=set)

    def sha256(self, name: str) -> str:
        """Return the hash that is told of a file."""
        content = b"another" if name in self.wrong_hashes else self.files[name]
        return hashlib.sha256(content).hexdigest()

    def siblings(self) -> list[dict[str, object]]:
        """Return what is told of all files."""
        return [self._sibling(name, content) for name, content in self.files.items()]

    def _sibling(self, name: str, content: bytes) -> dict[str, object]:
        entry: dict[str, object] = {"rfilename": name, "size": len(content), "blobId": "a" * 40}
        if name.endswith(".gguf"):
            entry["lfs"] = {"sha256": self.sha256(name), "size": len(content), "pointerSize": 130}
        return entry


class LocalHub(ThreadingHTTPServer):
    """Serves repositories; `cut_after` breaks each download off after so many bytes, that many times.

    `busy` has the statuses of the next answers to downloads; a hub that `moves` gets another commit on its
    main branch whenever it was asked for the files of one.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.repositories: dict[str, Repository] = {}
        self.requests: list[tuple[str, str, str | None, str | None]] = []
        self.cut_after: int | None = None
        self.cuts = 0
        self.ignores_ranges = False
        self.status = 200
        self.busy: list[int] = []
        self.moves = False
        self.is_captive = False

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def ranges(self) -> list[str | None]:
        """Return the ranges of files that were asked for."""
        return [span for method, path, span, _ in self.requests if method == "GET" and "/resolve/" in path]


class _Answer(BaseHTTPRequestHandler):
    server: LocalHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._route()

    def do_GET(self) -> None:
        self._route()

    def _route(self) -> None:
        path = unquote(urlsplit(self.path).path)
        headers = self.headers.get("Range"), self.headers.get("Authorization")
        self.server.requests.append((self.command, path, *headers))
        parts = path.strip("/").split("/")
        if self.server.is_captive:
            self._send(b"<html>please log in", {})
        elif self.server.status != 200:
            self._error(self.server.status, "")
        elif parts[:2] == ["api", "models"]:
            self._info("/".join(parts[2:4]), parts[5] if len(parts) > 5 else "main")
        elif self.server.busy and self.command == "GET":
            self._error(self.server.busy.pop(0), "")
        else:
            self._file("/".join(parts[:2]), parts[3], "/".join(parts[4:]))

    def _info(self, name: str, revision: str) -> None:
        repository = self.server.repositories.get(name)
        if repository is None:
            self._error(401, "RepoNotFound")
        elif revision not in ("main", "branch", COMMIT):
            self._error(404, "RevisionNotFound")
        else:
            sha = BRANCH_COMMIT if revision == "branch" else COMMIT
            self._send(json.dumps({"id": name, "sha": sha, "siblings": repository.siblings()}).encode(), {})

    def _file(self, name: str, revision: str, file: str) -> None:
        repository = self.server.repositories[name]
        if repository.is_gated:
            self._error(403, "GatedRepo")
            return
        if file not in repository.files:
            self._error(404, "EntryNotFound")
            return
        content = repository.files[file]
        etag = repository.sha256(file) if file.endswith(".gguf") else hashlib.sha1(content).hexdigest()
        has_moved = self.server.moves and revision == "main"
        commit = BRANCH_COMMIT if has_moved or revision in ("branch", BRANCH_COMMIT) else COMMIT
        self._send(content, {"X-Repo-Commit": commit, "ETag": f'"{etag}"', "Accept-Ranges": "bytes"})

    def _error(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", "no")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, content: bytes, headers: dict[str, str]) -> None:
        span = self.headers.get("Range")
        start = int(span.removeprefix("bytes=").rstrip("-")) if span and not self.server.ignores_ranges else 0
        self.send_response(206 if start else 200)
        body = content[start:]
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self._body(body)

    def _body(self, body: bytes) -> None:
        cut = self.server.cut_after
        if cut is not None and self.server.cuts and "/resolve/" in self.path:
            self.server.cuts -= 1
            self.wfile.write(body[:cut])
            self.close_connection = True
        else:
            self.wfile.write(body)


@contextmanager
def local_hub() -> Iterator[LocalHub]:
    """Serve one repository, owner/name, with two quantised models, one in parts, and small files."""
    with LocalHub() as hub:
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        hub.repositories["owner/name"] = Repository(
            {
                "README.md": b"# hello",
                "tokenizer.json": b"{}",
                "m-Q4_K_M.gguf": b"GGUF" + bytes(300_000),
                "m-Q8_0.gguf": b"GGUF8",
                "mmproj-m-Q8_0.gguf": b"GGUFp",
                "big/m-F16-00001-of-00002.gguf": b"GGUF1",
                "big/m-F16-00002-of-00002.gguf": b"GGUF2",
            }
        )
        yield hub
        hub.shutdown()
        thread.join()
