"""Sockets: this machine's own names by default, the network's when told so."""

from __future__ import annotations

import socket

from equipoise.errors import InputError

LOOPBACK = ("127.0.0.1", "localhost", "::1")


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


def address(host: str, listening: socket.socket) -> str:
    """Return the address at which a browser finds the socket."""
    return f"http://{_shown(host)}:{listening.getsockname()[1]}/"


def _shown(host: str) -> str:
    """Return the host as a link has it."""
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
