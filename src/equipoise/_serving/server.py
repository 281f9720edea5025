"""The server of a site: quiet, and with bounds on what a connection may cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equipoise.errors import MissingExtraError

if TYPE_CHECKING:
    import uvicorn


def require_extra(verb: str) -> None:
    """Raise now, for a verb that serves a page, what ``server`` would raise later."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingExtraError(f"equipoise {verb}", "starlette with uvicorn", verb) from None


def server(site: Any) -> uvicorn.Server:
    """Return the server of an ASGI application; addresses are not logged."""
    import uvicorn

    from equipoise._serving.connections import BACKLOG, patient_protocol

    # "error": whoever connects can make uvicorn warn, line after line
    quiet = {"access_log": False, "log_level": "error", "server_header": False}
    config = uvicorn.Config(
        site,
        http=patient_protocol(),
        lifespan="on",
        ws="none",
        backlog=BACKLOG,
        timeout_graceful_shutdown=5,
        **quiet,
    )
    return uvicorn.Server(config)
