"""A real HTTP server on loopback that speaks the chat-completions protocol, answers by the grammar, and misbehaves on demand.

Faults: "429" (with Retry-After), "500", "hang" (until the client leaves), "cut" (the connection closes in the body), "html" (200, no JSON),
"truncated" (JSON of an answer cut short), "chatter", "refusal", "wrong group", "repeat", "no structured" (400 for response_format), "filter" (400
by a content filter), "401", "404", "unstructured N" (status N for response_format, no word about it), "echo N" (status N, with the key it was given
after some words).
Run as a module it prints its port and logs each request as a line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable

from equipoise.prompts._attribute import Attribute
from equipoise.prompts._grammar import write_entry

CONTENT_FAULTS = ("truncated", "chatter", "refusal", "wrong group")
TRANSPORT_FAULTS = ("429", "500", "hang", "cut", "html")


class ChatServer:
    """Answers for one attribute. ``fault(body, nth)`` names a fault or None; nth counts requests with the same body, from 1."""

    def __init__(
        self,
        attribute: Attribute,
        fault: Callable[[dict, int], str | None] = lambda body, nth: None,
        *,
        latency=0.0,
        retry_after="0.05",
        log=None,
    ):
        self.attribute, self.fault, self.latency, self.retry_after, self.log_file = (
            attribute,
            fault,
            latency,
            retry_after,
            log,
        )
        self.requests: list[dict] = []
        self.seen: Counter = Counter()
        self.entries: dict = {}
        self.headers: list[str] = []
        self.now = self.most = 0

    # --- One answer ------------------------------------------------------------------------------------------------------

    def content(self, body: dict, fault: str | None) -> str:
        messages = body["messages"]
        first = next(m["content"] for m in messages if m["role"] == "user")
        prompt = re.search(r"\nPrompt: (.*?)(?:\n\nAnswer|$)", first, re.S).group(1)
        group = re.search(r"of the person is (.+?)\. Keep all", first).group(1)
        if fault == "wrong group":
            group = next(other for other in self.attribute.groups if other != group)
        if (prompt, group) not in self.entries:
            self.entries[prompt, group] = write_entry(prompt, self.attribute, group)
        entry = self.entries[prompt, group]
        step = (
            "variants"
            if sum(m["role"] == "assistant" for m in messages)
            and "Now write other wordings" in json.dumps(messages)
            else "anchor"
        )
        structured = "response_format" in body
        if step == "anchor":
            text = json.dumps({"anchor": entry.anchor}) if structured else entry.anchor
        else:
            listed = "\n".join(f"{i}. {text}" for i, text in enumerate(entry.variants, 1))
            text = json.dumps({"variants": list(entry.variants)}) if structured else listed
        if fault == "truncated":
            return text[: len(text) // 2] if structured else '{"' + step + '": ["cut'
        if fault == "chatter":
            return (
                "Sure! I would be happy to help with that.\nLet me know if you need anything else."
            )
        return text

    def reply(self, body: dict, fault: str | None) -> tuple[int, dict[str, str], bytes]:
        errors = {"429": 429, "500": 500, "401": 401, "404": 404}
        if fault in errors:
            headers = {"Retry-After": self.retry_after} if fault == "429" else {}
            return (
                errors[fault],
                headers,
                json.dumps(
                    {"error": {"message": f"injected {fault}", "type": "test", "code": None}}
                ).encode(),
            )
        if fault and fault.startswith("unstructured ") and "response_format" in body:
            return (
                int(fault.split()[1]),
                {},
                json.dumps({"error": {"message": "cannot do that"}}).encode(),
            )
        if fault and fault.startswith("echo "):
            key = re.search(r"(?i)authorization: (.*)", self.headers[-1]).group(1).strip()
            return (
                int(fault.split()[1]),
                {},
                json.dumps({"error": {"message": "x" * 150 + f" you sent {key}"}}).encode(),
            )
        if fault == "filter":
            return (
                400,
                {},
                json.dumps(
                    {"error": {"message": "the prompt was filtered", "code": "content_filter"}}
                ).encode(),
            )
        if fault == "no structured" and "response_format" in body:
            return (
                400,
                {},
                json.dumps(
                    {
                        "error": {
                            "message": "response_format is not supported",
                            "type": "invalid_request_error",
                        }
                    }
                ).encode(),
            )
        if fault == "html":
            return 200, {"Content-Type": "text/html"}, b"<html>a proxy's page</html>"
        message = {"role": "assistant", "content": self.content(body, fault)}
        if fault == "refusal":
            message |= {"content": None, "refusal": "I cannot help with that."}
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": "length" if fault == "cut off" else "stop",
        }
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return (
            200,
            {},
            json.dumps(
                {
                    "id": "x",
                    "object": "chat.completion",
                    "created": 0,
                    "model": body["model"],
                    "choices": [choice],
                    "usage": usage,
                }
            ).encode(),
        )

    # --- The protocol ----------------------------------------------------------------------------------------------------

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await self.read(reader):
                if not await self.answer(request, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def read(self, reader: asyncio.StreamReader) -> tuple[str, dict] | None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.headers.append(head.decode())
        length = int(re.search(rb"(?i)content-length: *(\d+)", head).group(1))
        return head.split(b" ")[1].decode(), json.loads(await reader.readexactly(length))

    async def answer(self, request: tuple[str, dict], reader, writer) -> bool:
        path, body = request
        began = time.monotonic()
        name = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        self.seen[name] += 1
        fault = self.fault(body, self.seen[name]) if path.endswith("/chat/completions") else "404"
        record = {
            "body": body,
            "name": name,
            "fault": fault,
            "delivered": False,
            "began": time.time(),
        }
        self.requests.append(record)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if fault == "hang":
                await reader.read(1)  # until the client leaves
                return False
            await asyncio.sleep(self.latency)
            status, headers, data = self.reply(body, fault)
            lines = [
                f"HTTP/1.1 {status} x",
                *(f"{k}: {v}" for k, v in ({"Content-Type": "application/json"} | headers).items()),
            ]
            head = ("\r\n".join([*lines, f"Content-Length: {len(data)}"]) + "\r\n\r\n").encode()
            if fault == "cut":
                writer.write(head + data[: len(data) // 2])
                await writer.drain()
                return False
            writer.write(head + data)
            await writer.drain()
            record["delivered"] = status == 200 and fault != "html"
            return True
        finally:
            self.now -= 1
            record["held"] = time.monotonic() - began
            if self.log_file:
                print(json.dumps(record), file=self.log_file, flush=True)

    # --- Running it ------------------------------------------------------------------------------------------------------

    async def serve(self, ready: Callable[[int], None], until: asyncio.Event) -> None:
        server = await asyncio.start_server(self.handle, "127.0.0.1", 0)
        ready(server.sockets[0].getsockname()[1])
        await until.wait()
        server.close()

    def __enter__(self) -> ChatServer:
        started = threading.Event()

        def run() -> None:
            async def main() -> None:
                self.loop, self.stop = asyncio.get_running_loop(), asyncio.Event()

                def ready(port: int) -> None:
                    self.port = port
                    started.set()

                await self.serve(ready, self.stop)

            asyncio.run(main())

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        started.wait()
        return self

    def __exit__(self, *_) -> None:
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


def share_of_faults(
    share: float, seed: int = 0, kinds=TRANSPORT_FAULTS + CONTENT_FAULTS
) -> Callable[[dict, int], str | None]:
    """That share of requests, drawn by the request's own words and number, has one of the faults."""

    def fault(body: dict, nth: int) -> str | None:
        digest = hashlib.sha256(
            f"{seed} {nth} {json.dumps(body, sort_keys=True)}".encode()
        ).digest()
        drawn = int.from_bytes(digest[:4], "big") / 2**32
        return kinds[digest[5] % len(kinds)] if drawn < share else None

    return fault


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--faults", type=float, default=0.0)
    parser.add_argument("--retry-after", default="1")
    parser.add_argument("--log")
    arguments = parser.parse_args()
    log = open(arguments.log, "a") if arguments.log else None  # noqa: SIM115
    server = ChatServer(
        Attribute.load("gender"),
        share_of_faults(arguments.faults),
        latency=arguments.latency,
        retry_after=arguments.retry_after,
        log=log,
    )
    asyncio.run(server.serve(lambda port: print(port, flush=True), asyncio.Event()))


if __name__ == "__main__":
    main()
