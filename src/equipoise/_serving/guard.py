"""The guard before every address.

Requests from other sites are refused, and pages may load nothing from elsewhere.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from equipoise._serving.listening import LOOPBACK

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors"
)
# where notebooks of this machine run
NOTEBOOKS = "http://127.0.0.1:* http://localhost:* vscode-webview:"
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """A guard that refuses what comes from elsewhere, and sets the headers of what goes out.

    loopback: only names of this machine are answered to, and the ``names`` beside them. framers:
    who may show the page inside a page of their own.
    """

    def __init__(
        self, app: ASGIApp, loopback: bool, framers: str = "", names: tuple[str, ...] = ()
    ):
        self.app = app
        self.loopback = loopback
        self.names = (*LOOPBACK, *names)
        if framers:
            self.headers = HEADERS | {"Content-Security-Policy": f"{POLICY} {framers}"}
        else:
            alone = {"Content-Security-Policy": f"{POLICY} 'none'", "X-Frame-Options": "DENY"}
            self.headers = HEADERS | alone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self.headers)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(scope["method"], scope["path"], Headers(scope=scope))
        app = JSONResponse({"error": refusal}, 403) if refusal else self.app
        await app(scope, receive, guarded)

    def _refusal(self, method: str, path: str, headers: Headers) -> str | None:
        host = headers.get("host", "")
        if self.loopback and _name(host) not in self.names:
            return "this server answers to its own names only"
        origin = headers.get("origin")
        if origin is not None and _netloc(origin) != host.lower():
            return "requests from other sites are refused"
        # a link in a letter
        opening = method == "GET" and path == "/" and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not opening:
            return "requests from other sites are refused"
        return None


def _name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None
