"""A project on a socket: this machine's own by default, the network's when told so."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from equipoise._annotate.project import Project
from equipoise._stores.lock import alone_in
from equipoise.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import uvicorn

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def require_extra() -> None:
    """Raise now what ``serve`` would raise later."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "equipoise annotate", "starlette with uvicorn", "annotate"
        ) from None


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
    with alone_in(path.parent, f".{path.name}.lock"), listen(host, port) as listening:
        ready(f"http://{_shown(host)}:{listening.getsockname()[1]}/")
        with suppress(KeyboardInterrupt):  # uvicorn raises it once more when it has stopped
            server(project, loopback=not expose).run(sockets=[listening])


def server(project: Project, **options: Any) -> uvicorn.Server:
    """Return the server of a project; addresses are not logged. options: of ``application``."""
    import uvicorn

    from equipoise._annotate.connections import BACKLOG, patient_protocol
    from equipoise._annotate.server import application

    # "error": whoever connects can make uvicorn warn, line after line
    quiet = {"access_log": False, "log_level": "error", "server_header": False}
    config = uvicorn.Config(
        application(project, **options),
        http=patient_protocol(),
        lifespan="on",
        ws="none",
        backlog=BACKLOG,
        timeout_graceful_shutdown=5,
        **quiet,
    )
    return uvicorn.Server(config)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that takes connections already."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(
            f"{host}, port {port} cannot be listened on ({error}); pass another `port`, or 0 for"
            " any that is free"
        ) from None
    # asyncio sends small answers at once, and not 40 ms later, only where a socket says that it is
    # TCP
    return socket.socket(made.family, made.type, socket.IPPROTO_TCP, fileno=made.detach())


def _shown(host: str) -> str:
    """Return the host as a link has it."""
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
