"""Sharing, through the real client, with a small hub on loopback."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import numpy as np
import pytest

import equipoise as eq
from equipoise import _hub as eq_hub
from equipoise.errors import ArtefactError, MissingExtraError
from tests.helpers.common import component, make_space

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
        elif "/me/space/resolve/" in self.path and name in self.files:
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

    do_HEAD = do_GET

    def log_message(self, format, *args):
        pass


@pytest.fixture
def loopback_hub(monkeypatch, tmp_path):
    client = component("huggingface_hub")
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
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    Hub.files, Hub.created = {}, []
    yield client
    server.shutdown()


def test_push_and_fetch(rng, loopback_hub, tmp_path):
    space = make_space(rng, attribute="gender", encoder="hf:clip")
    address = space.push_to_hub("me/space", token="hf_secret_of_mine", private=True)
    assert address.endswith(COMMIT)
    assert Hub.created[0].get("visibility") == "private" or Hub.created[0].get("private") is True
    card = Hub.files["README.md"].decode()
    assert "g0, g1, g2" in card and "hf:clip" in card
    assert not any(b"hf_secret_of_mine" in data for data in Hub.files.values())
    back = eq.AttributeSpace.from_pretrained("me/space", encoder="hf:clip")
    assert np.array_equal(back.basis, space.basis)
    again = eq.AttributeSpace.from_pretrained("me/space", offline=True)  # from the cache
    assert np.array_equal(again.basis, space.basis)
    with pytest.raises(ArtefactError, match="'me/other' is neither a folder nor"):
        eq.AttributeSpace.from_pretrained("me/other")


def test_from_a_folder(rng, tmp_path):
    space = make_space(rng)
    space.save(tmp_path / "space.safetensors")
    assert np.array_equal(eq.AttributeSpace.from_pretrained(tmp_path).basis, space.basis)
    assert np.array_equal(
        eq.AttributeSpace.from_pretrained(tmp_path / "space.safetensors").basis, space.basis
    )
    with pytest.raises(ArtefactError, match="no file"):
        eq.AttributeSpace.from_pretrained(tmp_path.parent)


def test_missing_extra_prints_the_pip_line(monkeypatch, rng):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r'pip install "equipoise\[hub\]"'):
        eq_hub.fetch("me/space")
