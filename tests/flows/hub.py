"""A stand-in of the Hugging Face hub: repositories, preupload, LFS and commits over HTTP, as huggingface_hub calls them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_of_a_test"  # noqa: S105
_LARGE = (".safetensors", ".parquet", ".model")
"""Endings of files that go to the LFS storage."""


@dataclass
class Repo:
    """A repository with its committed files."""

    private: bool
    files: dict[str, bytes] = field(default_factory=dict)
    commits: int = 0


@dataclass
class Hub:
    """The server's state."""

    url: str = ""
    repos: dict[tuple[str, str], Repo] = field(default_factory=dict)
    """By kind (model, dataset) and name."""
    stored: dict[str, bytes] = field(default_factory=dict)
    """Objects of the LFS storage by sha256."""
    sent: Counter[str] = field(default_factory=Counter)
    """How often each object was uploaded completely."""
    held: str = ""
    """sha256 of an object whose upload is blocked, so that its sender can be killed."""
    holding: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def forget(self) -> None:
        """Reset the server's state."""
        self.repos.clear(), self.stored.clear(), self.sent.clear()
        self.held = ""
        self.holding.clear(), self.released.clear()


def _git(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324 (git's own)


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""

    def _answer(self, content: Any, status: int = 200, **headers: str) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _allowed(self) -> bool:
        if self.headers.get("Authorization") == f"Bearer {TOKEN}":
            return True
        self._answer({"error": "Invalid credentials"}, 401)
        return False

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if not self._allowed():
            return
        if path == "/api/whoami-v2":
            self._answer({"name": "me", "type": "user", "fullname": "me", "orgs": [], "auth": {}})
        elif (found := re.fullmatch(r"/api/(model|dataset)s/([^/]+/[^/]+)(/revision/main)?", path)) and (
            repo := self.hub.repos.get((found[1], found[2]))
        ):
            found_repo = {"id": found[2], "private": repo.private, "sha": f"{repo.commits:040x}", "tags": [], "siblings": []}
            self._answer(found_repo | {"downloads": 0, "likes": 0})
        else:
            self._answer({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")

    def do_POST(self) -> None:
        path, body = self.path.partition("?")[0], self._body()
        if not self._allowed():
            return
        if path == "/api/repos/create":
            self._create(json.loads(body))
        elif path == "/api/validate-yaml":
            valid = json.loads(body)["content"].startswith("---\n")
            self._answer({"errors": [] if valid else [{"message": "no metadata"}], "warnings": []}, 200 if valid else 400)
        elif found := re.fullmatch(r"/api/(model|dataset)s/([^/]+/[^/]+)/preupload/main", path):
            self._preupload(self.hub.repos[found[1], found[2]], json.loads(body)["files"])
        elif path.endswith(".git/info/lfs/objects/batch"):
            self._batch(json.loads(body)["objects"])
        elif found := re.fullmatch(r"/api/(model|dataset)s/([^/]+/[^/]+)/commit/main", path):
            self._commit(found[1], found[2], [json.loads(line) for line in body.splitlines()])
        else:
            self._answer({"error": f"no {path} here"}, 404)

    def _create(self, asked: dict[str, Any]) -> None:
        kind, name = asked.get("type", "model"), f"{asked['organization'] or 'me'}/{asked['name']}"
        there = (kind, name) in self.hub.repos
        private = asked.get("visibility", "private" if asked.get("private") else "public") == "private"
        self.hub.repos.setdefault((kind, name), Repo(private=private))
        prefix = "datasets/" if kind == "dataset" else ""
        self._answer({"url": f"{self.hub.url}/{prefix}{name}", "name": name, "id": name}, 409 if there else 200)

    def _preupload(self, repo: Repo, files: list[dict[str, Any]]) -> None:
        answers = []
        for each in files:
            large, known = each["path"].endswith(_LARGE), repo.files.get(each["path"])
            oid = None if known is None else hashlib.sha256(known).hexdigest() if large else _git(known)
            answers.append(
                {"path": each["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": False, "oid": oid}
            )
        self._answer({"files": answers})

    def _batch(self, objects: list[dict[str, Any]]) -> None:
        answers = []
        for each in objects:
            missing = each["oid"] not in self.hub.stored
            actions = {"actions": {"upload": {"href": f"{self.hub.url}/storage/{each['oid']}"}}} if missing else {}
            answers.append({"oid": each["oid"], "size": each["size"], **actions})
        self._answer({"transfer": "basic", "objects": answers})

    def do_PUT(self) -> None:
        oid = self.path.rpartition("/")[2]
        if oid == self.hub.held and not self.hub.released.is_set():
            self.hub.holding.set()
            self.hub.released.wait(120)
            self.close_connection = True
            return
        body = self._body()
        assert hashlib.sha256(body).hexdigest() == oid
        self.hub.stored[oid] = body
        self.hub.sent[oid] += 1
        self._answer({})

    def _commit(self, kind: str, name: str, lines: list[dict[str, Any]]) -> None:
        repo = self.hub.repos[kind, name]
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                repo.files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                repo.files[value["path"]] = self.hub.stored[value["oid"]]
        repo.commits += 1
        prefix = "datasets/" if kind == "dataset" else ""
        commit = f"{repo.commits:040x}"
        self._answer({"commitUrl": f"{self.hub.url}/{prefix}{name}/commit/{commit}", "commitOid": commit, "success": True})


@contextmanager
def hub() -> Iterator[Hub]:
    """A hub on a free port."""
    known = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": known}))
    known.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield known
    finally:
        known.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
