"""A small hub on loopback, which the real client of Hugging Face talks to."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

COMMIT = "c" * 40


class Hub(BaseHTTPRequestHandler):
    """As much of the hub's protocol as one upload and one download need."""

    files: ClassVar[dict[str, bytes]] = {}
    created: ClassVar[list[dict]] = []

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def json(self, value):
        self.answer(200, json.dumps(value).encode(), Content_Type="application/json")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/api/repos/create":
            self.created.append(json.loads(body))
            self.json({"url": f"http://{self.headers['Host']}/me/space", "id": "me/space"})
        elif "/preupload/" in self.path:
            self.json(
                {
                    "files": [
                        {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False}
                        for f in json.loads(body)["files"]
                    ]
                }
            )
        elif "/commit/" in self.path:
            for line in body.splitlines():
                item = json.loads(line)
                if item["key"] == "file":
                    self.files[item["value"]["path"]] = base64.b64decode(item["value"]["content"])
            self.json(
                {
                    "commitUrl": f"http://{self.headers['Host']}/me/space/commit/{COMMIT}",
                    "commitOid": COMMIT,
                    "success": True,
                }
            )
        elif self.path.startswith("/api/validate-yaml"):
            self.json({"errors": [], "warnings": []})
        else:
            self.answer(404)

    def do_GET(self):
        name = self.path.split("?")[0].rsplit("/", 1)[-1]
        if self.path.startswith("/api/"):
            self.json(
                {"id": "me/space", "modelId": "me/space", "sha": COMMIT, "siblings": [], "tags": []}
            )
        elif self.is_created() and "/resolve/" in self.path and name in self.files:
            data = self.files[name]
            self.answer(
                200,
                data,
                ETag=f'"{hashlib.sha256(data).hexdigest()}"',
                X_Repo_Commit=COMMIT,
                Content_Type="application/octet-stream",
            )
        else:
            self.answer(404, b"{}", X_Error_Code="RepoNotFound")

    def is_created(self) -> bool:
        """Whether the path is of a repository that somebody created."""
        owner, name = self.path.split("/")[1:3]
        return owner == "me" and name in {about["name"] for about in self.created}

    do_HEAD = do_GET

    def log_message(self, format, *args):
        pass


@contextmanager
def serving_hub(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Iterator[None]:
    """Every call of huggingface_hub goes to an empty hub of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    from huggingface_hub import constants, file_download, hf_api

    for module in (constants, file_download, hf_api):
        for name in ("ENDPOINT", "HF_ENDPOINT"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, endpoint)
    monkeypatch.setattr(
        constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        endpoint + "/{repo_id}/resolve/{revision}/{filename}",
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    Hub.files, Hub.created = {}, []
    yield
    server.shutdown()
