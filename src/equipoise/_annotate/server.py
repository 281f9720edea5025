"""The routes: the page, who it is, what comes next, an answer, an undo, a picture.

All state is in the project's file.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from anyio import CapacityLimiter, to_thread
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from equipoise._annotate import catalogue, labels, people, pictures
from equipoise._annotate.documents import AnswerKeys, PageRequest, TurnMessage
from equipoise._annotate.project import Project
from equipoise._serving.guard import Guard
from equipoise._serving.requests import fields_of, refusal
from equipoise.errors import ArtefactError, EquipoiseError, InputError

STATIC = Path(__file__).parent / "static"
LARGEST = 4096  # bytes of a request
SCAN_EVERY = 10.0  # seconds
DECODERS = 2  # pictures that are decoded at a time: a large one may take a gigabyte
REQUEST = re.compile(r"[A-Za-z0-9-]{8,64}")
GONE = {
    catalogue.GONE: "The file of this picture is not there any more.",
    catalogue.REPLACED: "This picture has been replaced by another.",
    catalogue.UNREADABLE: "The file of this picture cannot be read.",
}
_log = logging.getLogger(__name__)


def application(
    project: Project, *, loopback: bool = True, scan_every: float = SCAN_EVERY
) -> ASGIApp:
    """Return the whole site of a project. loopback: it is served on this machine only."""
    answers = _Site(project)
    routes = [
        Route("/", lambda request: FileResponse(STATIC / "index.html")),
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/api/enter", _with_fields(answers.enter), methods=["POST"]),
        Route("/api/leave", _with_fields(answers.leave), methods=["POST"]),
        Route("/api/turn", answers.turn),
        Route("/api/label", _with_fields(answers.label), methods=["POST"]),
        Route("/api/undo", _with_fields(answers.undo), methods=["POST"]),
        Route("/picture/{id}", answers.picture),
    ]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        scanning = asyncio.create_task(_scan(project, scan_every))
        try:
            yield
        finally:
            scanning.cancel()
            with suppress(asyncio.CancelledError):
                await scanning

    site = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={EquipoiseError: _trouble, HTTPException: refusal},
        max_body_size=LARGEST,
    )
    return Guard(site, loopback)


class _Site:
    """What each address answers with."""

    def __init__(self, project: Project):
        self.project = project
        self.database = project.database
        self.cookie = f"equipoise-{project.id}"  # another project of this host has another
        self.decoders = CapacityLimiter(DECODERS)

    def enter(self, request: Request, fields: PageRequest) -> Response:
        token = fields.token
        name = people.who(self.database, token) if isinstance(token, str) else None
        if name is None:
            raise HTTPException(403, "this link is not valid, or not any more; ask for a new one")
        response = self._turn(name)
        response.set_cookie(
            self.cookie,
            people.begin_session(self.database, name),
            max_age=people.REMEMBERED,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    def leave(self, request: Request, fields: PageRequest) -> Response:
        if session := request.cookies.get(self.cookie):
            people.end_session(self.database, session)
        response = JSONResponse({})
        response.delete_cookie(self.cookie, httponly=True, samesite="strict")
        return response

    def turn(self, request: Request) -> Response:
        return self._turn(self._annotator(request))

    def label(self, request: Request, fields: PageRequest) -> Response:
        annotator = self._annotator(request)
        answer = self.project.question.require(fields.answer)
        picture = fields.picture
        if not isinstance(picture, str) or not catalogue.look_up(self.database, picture):
            raise HTTPException(404, "there is no such picture")
        labels.keep(self.database, annotator, picture, answer, _request_of(fields))
        return self._turn(annotator)

    def undo(self, request: Request, fields: PageRequest) -> Response:
        annotator = self._annotator(request)
        undone = labels.undo(self.database, annotator, _request_of(fields))
        return self._turn(annotator, first=undone)

    async def picture(self, request: Request) -> Response:
        # those who wait for a decoder hold no thread, so that answers are taken meanwhile
        return await to_thread.run_sync(self._picture, request, limiter=self.decoders)

    def _picture(self, request: Request) -> Response:
        self._annotator(request)
        picture = request.path_params["id"]
        known = catalogue.look_up(self.database, picture)
        if not known:
            raise HTTPException(404, "there is no such picture")
        state, path, stamp = known
        try:
            if state == catalogue.HERE:
                data = pictures.shown(pictures.read(self.project.folder, path, stamp))
                return Response(
                    data,
                    media_type="image/jpeg",
                    headers={"Cache-Control": "private, max-age=86400, immutable"},
                )
        except pictures.UnreadableImageError:
            state = catalogue.UNREADABLE
        except InputError:  # gone, changed, or a link that leads out of the folder now
            state = catalogue.GONE
        self.project.miss(picture, state)
        raise HTTPException(410, GONE[state])

    def _annotator(self, request: Request) -> str:
        session = request.cookies.get(self.cookie)
        name = people.whose_session(self.database, session) if session else None
        if name is None:
            raise HTTPException(401, "open the link that you were given")
        return name

    def _turn(self, annotator: str, first: str | None = None) -> Response:
        turn = labels.turn(self.database, annotator, first)
        question = self.project.question
        keys = question.keys().items()
        message = TurnMessage(
            annotator=annotator,
            question=question.text,
            answers=[AnswerKeys(answer=answer, keys=pressed) for answer, pressed in keys],
            picture=turn.picture,
            following=turn.following,
            answered=turn.answered,
            left=turn.left,
        )
        if self.project.show_prompt:
            message = message.model_copy(update={"prompt": turn.prompt})
        return JSONResponse(message.to_plain())


def _with_fields(answer: Callable[[Request, PageRequest], Response]) -> Callable:
    """Return an endpoint that takes a JSON object."""

    async def respond(request: Request) -> Response:
        fields = await fields_of(request)
        try:
            sent = PageRequest.model_validate(fields)
        except ValidationError:
            raise HTTPException(400, "send a JSON object of texts") from None
        return await run_in_threadpool(answer, request, sent)

    return respond


def _request_of(fields: PageRequest) -> str:
    request = fields.request
    if not isinstance(request, str) or not REQUEST.fullmatch(request):
        raise HTTPException(
            400, "request must be 8 to 64 letters, digits or -, different for every action"
        )
    return request


async def _scan(project: Project, every: float) -> None:
    took = 0.0
    while True:
        await asyncio.sleep(max(every, 20 * took))  # of a large folder on a slow disk less often
        began = time.monotonic()
        try:
            await run_in_threadpool(project.scan)
        except (EquipoiseError, OSError) as error:
            # A manifest may be half written; the next look will do.
            _log.warning("%s", error)
        took = time.monotonic() - began


def _trouble(_: Request, error: Exception) -> Response:
    status = 400
    if isinstance(error, labels.ConflictError):
        status = 409
    elif isinstance(error, ArtefactError):
        status = 503
    return JSONResponse({"error": str(error)}, status)
