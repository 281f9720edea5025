"""The routes: the page, the three views, pictures, and what is saved of a search.

Pictures are asked for by their place in the collection: no path is ever taken from a request.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from equipoise._documents import Document
from equipoise._explore import saving, thumbnails
from equipoise._explore.answers import Trouble
from equipoise._explore.explorer import Explorer
from equipoise._explore.prompt_list import PromptFile
from equipoise._explore.words import STATIC
from equipoise._serving.guard import Guard
from equipoise._serving.requests import fields_of, refusal
from equipoise.encoders._images import UnreadableImageError
from equipoise.errors import ArtefactError, EquipoiseError, InputError

LARGEST = 16 << 10  # bytes of a request
COMPUTERS = 1  # searches at a time: each uses all cores by itself, and memory for its scores
DECODERS = 2  # pictures that are decoded at a time
PLACE = re.compile("[0-9]{1,12}")
KEPT = "private, max-age=86400, immutable"  # addresses of pictures hold the key of this run

Answer = TypeVar("Answer")
Compute = Callable[[], Document]


def application(
    explorer: Explorer,
    key: str | None,
    *,
    prompts: PromptFile | None = None,
    framers: str = "",
    names: tuple[str, ...] = (),
) -> ASGIApp:
    """Return the whole site.

    key: what requests must know, None for a page that everybody may see. framers: who may show it
    inside their own page. names: what it is called beside the names of this machine.
    """
    answers = _ExploreSite(explorer, key, prompts)
    routes = [
        Route("/", lambda request: FileResponse(STATIC / "index.html")),
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/api/about", answers.about),
        Route("/api/search", answers.search, methods=["POST"]),
        Route("/api/texts", answers.texts, methods=["POST"]),
        Route("/api/classes", answers.classes, methods=["POST"]),
        Route("/api/page", answers.page, methods=["POST"]),
        Route("/api/table", answers.table, methods=["POST"]),
        Route("/api/prompt", answers.prompt, methods=["POST"]),
        Route("/picture/{place}", answers.picture),
    ]
    site = Starlette(
        routes=routes,
        exception_handlers={EquipoiseError: _trouble, HTTPException: refusal},
        max_body_size=LARGEST,
    )
    return Guard(site, loopback=True, framers=framers, names=names)


class _ExploreSite:
    """What each address answers with."""

    def __init__(self, explorer: Explorer, key: str | None, prompts: PromptFile | None):
        self.explorer, self.prompts = explorer, prompts
        self._key = None if key is None else key.encode()
        self.computers = CapacityLimiter(COMPUTERS)
        self.decoders = CapacityLimiter(DECODERS)

    # --- Views

    async def about(self, request: Request) -> Response:
        self._require_key(request)
        told = await self._compute(self.explorer.about)
        file = None if self.prompts is None else self.prompts.name
        return JSONResponse(told.model_copy(update={"prompts_file": file}).to_plain())

    async def search(self, request: Request) -> Response:
        """Send the first row as soon as it is there, and the second after it."""
        question = self.explorer.question(await self._fields(request))
        searcher = self.explorer.searcher
        return self._stream(
            ("before", lambda: searcher.before(question)),
            ("after", lambda: searcher.after(question)),
        )

    async def classes(self, request: Request) -> Response:
        question = self.explorer.class_question(await self._fields(request))
        view = self.explorer.classes
        return self._stream(
            ("before", lambda: view.before(question)),
            ("after", lambda: view.after(question)),
        )

    async def texts(self, request: Request) -> Response:
        question = self.explorer.text_question(await self._fields(request))
        found = await self._compute(lambda: self.explorer.texts.answer(question))
        return JSONResponse(found.to_plain())

    # --- What is saved

    async def page(self, request: Request) -> Response:
        question = self.explorer.question(await self._fields(request))
        made = await self._compute(lambda: saving.page(self.explorer, question))
        return _download(made.encode(), "text/html; charset=utf-8")

    async def table(self, request: Request) -> Response:
        question = self.explorer.question(await self._fields(request))
        made = await self._compute(lambda: saving.table(self.explorer, question))
        return _download(made.encode(), "text/csv; charset=utf-8")

    async def prompt(self, request: Request) -> Response:
        """Add a prompt to the file that the user named when starting the page."""
        question = self.explorer.question(await self._fields(request))
        prompts = self.prompts
        if prompts is None:
            raise HTTPException(409, "no file was named; start with --prompts-file FILE")
        count = await to_thread.run_sync(prompts.add, question.text, limiter=self.computers)
        return JSONResponse({"count": count, "file": prompts.name})

    # --- Pictures

    async def picture(self, request: Request) -> Response:
        self._require_key(request)
        return await to_thread.run_sync(self._picture, request, limiter=self.decoders)

    def _picture(self, request: Request) -> Response:
        given = request.path_params["place"]
        size = request.query_params.get("size", "small")
        if not PLACE.fullmatch(given) or int(given) >= len(self.explorer.collection):
            raise HTTPException(404, "there is no such picture")
        try:
            picture = self.explorer.collection.picture(int(given))
            if size == "large":
                data = thumbnails.large(picture)
            else:
                data = self.explorer.thumbnails.small(picture)
        except (UnreadableImageError, InputError, OSError):
            raise HTTPException(410, "this picture cannot be read any more") from None
        return Response(data, media_type="image/jpeg", headers={"Cache-Control": KEPT})

    # --- Inside

    async def _compute(self, compute: Callable[[], Answer]) -> Answer:
        return await to_thread.run_sync(compute, limiter=self.computers)

    def _stream(self, *parts: tuple[str, Compute]) -> Response:
        """Return an answer of one JSON document per line, each sent when it is computed."""

        async def lines() -> AsyncIterator[str]:
            for name, compute in parts:
                try:
                    answer = await self._compute(compute)
                except EquipoiseError as error:  # the status is sent already
                    answer = Trouble(trouble=str(error))
                yield json.dumps({"part": name, **answer.to_plain()}, allow_nan=False) + "\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def _fields(self, request: Request) -> dict[str, Any]:
        self._require_key(request)
        return await fields_of(request)

    def _require_key(self, request: Request) -> None:
        """Raise unless the request knows the key: in a header, or, of a picture, in its address."""
        if self._key is None:
            return
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if request.url.path.startswith("/picture/"):
            given = request.query_params.get("key", "")
        if not hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self._key):
            raise HTTPException(401, "open the link that equipoise explore has printed")


def _download(data: bytes, kind: str) -> Response:
    return Response(data, headers={"Content-Type": kind, "Content-Disposition": "attachment"})


def _trouble(_: Request, error: Exception) -> Response:
    status = 503 if isinstance(error, ArtefactError) else 400
    return JSONResponse({"error": str(error)}, status)
