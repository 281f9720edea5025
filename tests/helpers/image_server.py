"""A real server on loopback that draws by OpenAI's images protocol, and misbehaves where it is told to."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from PIL import Image

Fault = Callable[[dict[str, Any], int], str | None]
"""(request, how often its picture was asked for) -> what goes wrong, or None."""


class ImageServer:
    """Draws noise of a colour by prompt and seed.

    asked: every request with its headers; made: key -> how often its picture was delivered whole.
    """

    def __init__(self, fault: Fault = lambda body, nth: None, size: int | None = None):
        self.fault, self.size = fault, size
        self.asked: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.tries: Counter[str] = Counter()
        self.made: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.leaving = threading.Event()

    def __enter__(self) -> ImageServer:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                owner.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.leaving.set()
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        key = handler.headers["Idempotency-Key"]
        with self.lock:
            headers = {name.lower(): value for name, value in handler.headers.items()}
            self.asked.append((headers, body))
            self.tries[key] += 1
            fault = self.fault(body, self.tries[key])
        try:
            self.reply(handler, body, key, fault)
        except (BrokenPipeError, ConnectionResetError):
            handler.close_connection = True

    def reply(self, handler, body: dict[str, Any], key: str, fault: str | None) -> None:
        if fault == "hang":
            self.leaving.wait(5)
            handler.close_connection = True
            return
        if fault == "429":
            self.send(handler, 429, b'{"error": {"message": "slow down"}}', {"Retry-After": "0.05"})
            return
        if fault is not None and fault.startswith("400"):
            said = {"error": {"message": fault.removeprefix("400 ")}}
            self.send(handler, 400, json.dumps(said).encode())
            return
        if fault in ("401", "500"):
            said = {"error": {"message": f"you said {handler.headers['Authorization']}"}}
            self.send(handler, int(fault), json.dumps(said).encode())
            return
        if fault == "huge":
            self.send(handler, 200, b" " * 2**20)
            return
        self.send(handler, 200, json.dumps(self.document(body, fault)).encode())
        if fault is None:
            with self.lock:
                self.made[key] += 1

    def document(self, body: dict[str, Any], fault: str | None) -> Any:
        side = int(body["size"].split("x")[0])
        if fault == "wrong size":
            side //= 2
        data = picture(body["prompt"], body.get("seed", 0), side)
        if fault == "not an image":
            data = b"GIF89a, or so it says"
        encoded = base64.b64encode(data).decode()
        if fault == "not base64":
            encoded = "*" + encoded
        if fault == "an address":
            return {"data": [{"url": f"{self.url}/elsewhere.png"}]}
        return {"created": 0, "data": [{"b64_json": encoded}]}

    @staticmethod
    def send(handler, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        handler.send_response(status)
        for name, value in ({"Content-Type": "application/json"} | (headers or {})).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)


def picture(prompt: str, seed: int, side: int) -> bytes:
    """A PNG that depends on prompt and seed alone."""
    digest = hashlib.sha256(f"{prompt} {seed}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    out = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (side, side, 3), np.uint8)).save(out, "PNG")
    return out.getvalue()
