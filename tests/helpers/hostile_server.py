"""A real HTTP server on loopback that reads a request and then does what a test tells it to."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import zlib
from collections.abc import Awaitable, Callable

Writer = asyncio.StreamWriter
Behaviour = Callable[[Writer], Awaitable[None]]


class HostileServer:
    """Answers every request by a behaviour; counts requests and keeps their heads."""

    def __init__(self, behaviour: Behaviour):
        self.behaviour = behaviour
        self.heads: list[str] = []

    async def _handle(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head.decode())
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            await reader.readexactly(int(length.group(1)) if length else 0)
            await self.behaviour(writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def __enter__(self) -> HostileServer:
        started = threading.Event()

        async def main() -> None:
            self.loop, self.stop = asyncio.get_running_loop(), asyncio.Event()
            server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            started.set()
            await self.stop.wait()
            server.close()

        self.thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
        self.thread.start()
        started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


def says(body: bytes, status: int = 200, **headers: str) -> Behaviour:
    """A whole answer of these bytes; headers have - for _."""
    given = {"content-type": "application/json"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}

    async def behaviour(writer: Writer) -> None:
        lines = [f"HTTP/1.1 {status} x", *(f"{name}: {value}" for name, value in given.items())]
        head = "\r\n".join([*lines, f"content-length: {len(body)}", "", ""])
        writer.write(head.encode() + body)

    return behaviour


def completes(content: object, **message: object) -> bytes:
    """The bytes of a chat completion whose message has this content."""
    choice = {"message": {"role": "assistant", "content": content, **message}}
    return json.dumps({"choices": [choice | {"finish_reason": "stop"}]}).encode()


def sends(head: bytes, again: bytes, pause: float = 0.0, times: int = 10**9) -> Behaviour:
    """Some bytes, and then others over and over until the client leaves."""

    async def behaviour(writer: Writer) -> None:
        writer.write(head)
        for _ in range(times):
            writer.write(again)
            await writer.drain()
            await asyncio.sleep(pause)

    return behaviour


def gzip_bomb(megabytes: int) -> bytes:
    """A gzip stream of zeros: one compressed block, which depends on none before it, many times."""
    made = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    block = made.compress(bytes(2**20)) + made.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + block * megabytes
