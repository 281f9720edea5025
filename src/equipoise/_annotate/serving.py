"""A project on a socket: this machine's own by default, the network's when told so."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from equipoise._annotate.project import Project
from equipoise._serving import server as serving
from equipoise._serving.listening import LOOPBACK, address, listen
from equipoise._stores.lock import alone_in
from equipoise.errors import InputError

if TYPE_CHECKING:
    import uvicorn


def require_extra() -> None:
    """Raise now what ``serve`` would raise later."""
    serving.require_extra("annotate")


def serve(
    project: Project, host: str, port: int, expose: bool, ready: Callable[[str], None]
) -> None:
    """Serve until stopped.

    ready: called with the address once requests are taken. expose: other machines may come in.
    """
    require_extra()
    if host not in LOOPBACK and not expose:
        raise InputError(
            f"{host} can be reached from other machines; pass `expose` as well, and put a server"
            " with TLS in front: links, labels and pictures travel in the clear. Legal without it:"
            f" {', '.join(LOOPBACK)}"
        )
    path = project.database.path
    lock = alone_in(path.parent, f".{path.name}.lock")
    # Ctrl-C may come before uvicorn listens for it; it raises one more when it has stopped
    with lock, listen(host, port) as listening, suppress(KeyboardInterrupt):
        ready(address(host, listening))
        server(project, loopback=not expose).run(sockets=[listening])


def server(project: Project, **options: Any) -> uvicorn.Server:
    """Return the server of a project. options: of ``application``."""
    from equipoise._annotate.server import application

    return serving.server(application(project, **options))
